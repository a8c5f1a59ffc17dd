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

/** An actor whose agent finds no service, and that no supervisor asks about. It prints when it means to end itself. */
const ORPHAN = `
import asyncio, json, sys, threading

class Timer(threading.Timer):
    def __init__(self, seconds, *rest):
        print(seconds, flush=True)
        super().__init__(seconds, *rest)

threading.Timer = Timer
sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_ray.seat import Seat

async def live():
    seat = Seat()
    await seat.learn([])
    await seat.start(json.loads(sys.argv[1]))
    await asyncio.Event().wait()

asyncio.run(live())
`;

/** Runs the code of an actor in a folder of its own; gives what it printed, and what it left there. */
async function runActor(code: string, graceMs: number): Promise<[printed: string, left: string[]]> {
  const folder = mkdtempSync(path.join(tmpdir(), "seat-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const { certificate } = makeAuthority({ name: "Test", from: new Date(0), until: NO_END });
  const order = {
    seatId: "s-abcdefghijkl",
    addresses: ["127.0.0.1:1"],
    authority: certificate,
    ticket: "0".repeat(32),
    graceMs,
  };
  const env = { ...process.env, TMPDIR: folder };
  const { stdout } = await promisify(execFile)("python3", ["-c", code, JSON.stringify(order)], { env });
  return [stdout, readdirSync(folder)];
}

verifies(
  "ray.orphan",
  "an actor whose agent has ended ends itself, although nobody asks for it",
  async () => {
    const [printed, left] = await runActor(ORPHAN, 50);
    const [unused, afterAgent] = printed.trim().split("\n").map(Number);
    expect([unused, left]).toEqual([60, []]);
    expect(afterAgent).toBeLessThan(5);
  },
);

/** Chooses a model of GPU for an actor, and says why it waits. */
const CHOOSE = `
import json, sys
sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_ray.seat import why_waiting, with_accelerator

nodes = [{"CPU": 8, "GPU": 1, "accelerator_type:T4": 1}, {"CPU": 8, "GPU": 4, "accelerator_type:A100": 1}]
first = with_accelerator({"GPU": 1}, ["H100", "A100", "T4"], nodes)
none = with_accelerator({"CPU": 1, "GPU": 1}, ["H100", "H200"], nodes)
print(json.dumps([first, none, why_waiting(none, nodes, {})]))
`;

verifies(
  "ray.gpus",
  "an actor needs the first model of its list that a node of the cluster has",
  async () => {
    const { stdout } = await promisify(execFile)("python3", ["-c", CHOOSE]);
    expect(JSON.parse(stdout)).toEqual([
      { GPU: 1, "accelerator_type:A100": 0.001 },
      { CPU: 1, GPU: 1, "accelerator_type:H100": 0.001 },
      "no node of the Ray cluster has 1 CPU, 1 GPU, a GPU of type H100 (the most that one has: 8 CPU, 4 GPU, none of type H100)",
    ]);
  },
);

verifies("ray.killed", "of an agent that was killed nothing is left on its node", async () => {
  expect(await runActor(ACTOR, 600_000)).toEqual(["-9\n", []]);
});
