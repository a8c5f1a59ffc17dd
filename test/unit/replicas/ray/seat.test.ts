import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished } from "vitest";
import { NO_END, makeAuthority } from "../../../../src/kit/x509.ts";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

/** What an actor does, without Ray: its agent finds no service, and is killed when it has its folder. */
const ACTOR = `
import asyncio, json, os, sys
sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_ray.seat import Seat

async def live():
    seat = Seat()
    await seat.learn(["10.0.0.7"])
    await seat.start(json.loads(sys.argv[1]))
    while not any(name.startswith("millrace-seat-") for name in os.listdir(os.environ["TMPDIR"])):
        await asyncio.sleep(0.01)
    agent = await seat._starting
    agent.kill()
    print(await seat.wait(), flush=True)

asyncio.run(live())
os._exit(0)
`;

verifies("ray.killed", "of an agent that was killed nothing is left on its node", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "seat-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const { certificate } = makeAuthority({ name: "Test", from: new Date(0), until: NO_END });
  const order = {
    seatId: "s-abcdefghijkl",
    addresses: ["127.0.0.1:1"],
    authority: certificate,
    ticket: "0".repeat(32),
    graceMs: 600_000,
  };
  const env = { ...process.env, TMPDIR: folder };
  const { stdout } = await promisify(execFile)("python3", ["-c", ACTOR, JSON.stringify(order)], { env });
  expect([stdout, readdirSync(folder)]).toEqual(["-9\n", []]);
});
