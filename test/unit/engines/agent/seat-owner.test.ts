import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

/** What a program prints that an agent starts: one that lives, and one that has just died. */
const START = `
import os, subprocess, sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_agent.app import program_arguments
gone = subprocess.Popen(["true"])
gone.wait()
for agent in (os.getpid(), gone.pid):
    program = program_arguments("/", ["echo", "ran"])
    print(subprocess.run(program, input=b"%d\\n" % agent, stdout=subprocess.PIPE).stdout)
`;

verifies("seats.alone", "a program whose agent died as it started it does not run", () => {
  expect(execFileSync("python3", ["-I", "-S", "-c", START], { encoding: "utf8" })).toBe("b'ran\\n'\nb''\n");
});
