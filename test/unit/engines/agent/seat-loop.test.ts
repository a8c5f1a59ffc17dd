import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

/** The loop of an agent whose ticks are a day apart. */
const TICK = `
import sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_agent import loop
loop._TICK_SECONDS = 86400.0
agent = loop.Loop()
def tick(now):
    print("called")
    agent.stop()
agent.run(tick)
`;

verifies("seats.at-once", "an agent calls before it waits for anything", () => {
  expect(execFileSync("python3", ["-I", "-S", "-c", TICK], { encoding: "utf8" })).toBe("called\n");
});
