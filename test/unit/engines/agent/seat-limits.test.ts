import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { askedLimits, endOfSeat, folderLimits } from "../../../../src/engines/agent/seat-walls.ts";
import { parseSeatMessage } from "../../../../src/engines/agent/seat-messages.ts";
import { verifies } from "../../../verifies.ts";
import { agentPython } from "./agent-python.ts";

const LIMITS = { memoryBytes: 2e8, cpus: null, cpuShare: 1 };
const FOLDERS = { scratch: 3e7, storage: null };

verifies(
  ["seats.limits.memory", "seats.limits.disk"],
  "an agent is told what holds, and nothing in pods",
  () => {
    const folders = folderLimits({ maxScratchBytes: 3e7, maxProjectStorageBytes: null });
    expect(askedLimits(LIMITS, folders)).toEqual({ memory: 2e8, scratch: 3e7, storage: null });
    expect(askedLimits(LIMITS, undefined)).toBeNull();
  },
);

verifies("seats.limits.disk", "why a seat ended is told in the words of a host, and only what can be", () => {
  const told = (fields: object) => {
    const line = JSON.stringify({ exited: { code: 143, is_out_of_memory: false, ...fields } });
    const message = parseSeatMessage(Buffer.from(line));
    return "exited" in message ? endOfSeat(message.exited, LIMITS, FOLDERS).detail : null;
  };
  expect(told({})).toBe("killed by SIGTERM");
  expect(told({ full: "scratch" })).toContain("MILLRACE_MAX_SCRATCH");
  expect(told({ is_out_of_memory: true })).toBe("it used more than its memory = 0.2 GB");
  // Nobody limits it.
  expect(told({ full: "storage" })).toBe(told({}));
  expect(() => told({ full: "/etc" })).toThrow(/message/);
});

/** A process with two children: one that takes 150 MB, and one that shares 150 MB with it and has only that. */
const FAMILY = `
import signal, time
from millrace_agent.memory import Memory, REST

def born(work):
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        try:
            work(tell)
        finally:
            os._exit(1)
    os.close(tell)
    return pid, told

def wait():
    while True:
        signal.pause()

def hungry(tell):
    own = os.urandom(1) * 150_000_000
    os.write(tell, b"x")
    wait()

def modest(tell):
    sum(shared[::4096])
    os.write(tell, b"x")
    wait()

def top(tell):
    global shared
    shared = os.urandom(1) * 150_000_000
    pids = []
    for work in (hungry, modest):
        pid, told = born(work)
        os.read(told, 1)
        pids.append(pid)
    os.write(tell, json.dumps(pids).encode())
    for _ in pids:
        os.write(tell, json.dumps(os.wait()).encode())
    wait()

keeper, told = born(top)
pids = json.loads(os.read(told, 100))
forks = dict(zip(("hungry", "modest"), pids))
stranger = Memory(1, os.getppid(), lambda: {})
memory = Memory(120_000_000, keeper, lambda: forks)
shares = [stranger.look(), memory.look()]
gone = [json.loads(os.read(told, 100))]
memory.look()
# All that is left is one group, if nobody knows of a fork.
rest = Memory(20_000_000, keeper, dict)
rest.look()
gone.append(json.loads(os.read(told, 100)))
print(json.dumps({
    "shares": [share > 1 for share in shares],
    "ended": [sorted(each.ended) for each in (stranger, memory, rest)],
    "gone": gone == [[pid, signal.SIGKILL] for pid in pids],
}))
os.kill(keeper, signal.SIGKILL)
`;

verifies(
  "seats.limits.memory",
  "each fork has the limit for itself, and what is shared counts in parts",
  () => {
    expect(agentPython(FAMILY)).toEqual({
      shares: [false, true],
      // Of what is below a process that is not its own, it ends nothing.
      ended: [[], ["hungry"], [""]],
      // The process above them lived to tell.
      gone: true,
    });
  },
);

/** A process that holds a file in memory, with two children: one that fills another, and one that has only this. */
const HOLDERS = `
import signal
from millrace_agent.memory import Memory

def fill(descriptor):
    for _ in range(60):
        os.write(descriptor, b"x" * 1_000_000)

def born(work):
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        work()
        os.write(tell, b"x")
        while True:
            signal.pause()
    os.read(told, 1)
    return pid

def top():
    shared = os.memfd_create("shared")
    fill(shared)
    pids = [born(lambda: fill(os.memfd_create("own"))), born(lambda: None)]
    os.write(report, json.dumps(pids).encode())

heard, report = os.pipe()
keeper = born(top)
forks = dict(zip(("filler", "heir"), json.loads(os.read(heard, 100))))
memory = Memory(55_000_000, keeper, lambda: forks)
memory.look()
print(json.dumps(sorted(memory.ended)))
for pid in (*forks.values(), keeper):
    os.kill(pid, signal.SIGKILL)
`;

verifies(
  ["seats.limits.memory", "walls.limits.memory.unmapped"],
  "files in memory count that nothing has mapped, and in parts for those that share them",
  () => {
    expect(agentPython(HOLDERS)).toEqual(["filler"]);
  },
);

const MEASURE = `
from millrace_agent.held import folder_bytes
size = folder_bytes(sys.argv[1], int(sys.argv[2]))
print(json.dumps(size if size < float("inf") else "deep"))
`;

verifies("seats.limits.disk", "a folder is as large as the disk says, with all in it", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(path.join(folder, "inner", "empty"), { recursive: true });
  writeFileSync(path.join(folder, "large"), Buffer.alloc(1_000_000, "x"));
  writeFileSync(path.join(folder, "inner", "none"), "");
  symlinkSync("/usr", path.join(folder, "inner", "link"));
  const measured = agentPython(MEASURE, folder, "100000000");
  expect(measured).toBeGreaterThan(1_000_000);
  expect(agentPython(MEASURE, path.join(folder, "nowhere"), "1")).toBe(0);
  mkdirSync(path.join(folder, ...Array.from({ length: 220 }, () => "d")), { recursive: true });
  expect(agentPython(MEASURE, folder, "100000000")).toBe("deep");
});
