import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, onTestFinished } from "vitest";
import { charge } from "../../../../src/host/limits/held-memory.ts";
import type { HeldMemory } from "../../../../src/host/limits/held-memory.ts";
import type { LimitGroup } from "../../../../src/host/limits/limits.ts";
import { MemoryWatcher } from "../../../../src/host/limits/memory-watcher.ts";
import { HandClock } from "../../../support/clocks.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const MB = 1_000_000;
const FIRST_LOOK_MS = 100;

/** A process that forks one, which does something and waits. Both end with its stdin; it tells how the other ended. */
const KEEPER = `
import mmap, os, signal, sys
held = os.memfd_create("of both")
def fill(descriptor, megabytes):
    for _ in range(megabytes):
        os.write(descriptor, b"x" * 1_000_000)
child = os.fork()
if child == 0:
    exec(sys.argv[1])
    print(os.getpid(), flush=True)
    while True:
        signal.pause()
if os.fork() == 0:
    sys.stdin.read()
    os.kill(child, signal.SIGTERM)
    os._exit(0)
print("ended by", os.waitpid(child, 0)[1], flush=True)
`;

type Family = { readonly keeper: number; readonly child: number; readonly end: () => Promise<string> };

async function start(code: string): Promise<Family> {
  const keeper = spawn("python3", ["-I", "-S", "-c", KEEPER, code], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void keeper.stdin.end());
  const lines = createInterface({ input: keeper.stdout });
  const [pid] = (await once(lines, "line")) as [string];
  const ended = once(lines, "line") as Promise<[string]>;
  return { keeper: keeper.pid ?? 0, child: Number(pid), end: async () => (await ended)[0] };
}

/** Has groups looked at once, and gives those that ran out. */
async function look(...groups: readonly (readonly [maxBytes: number, pid: number])[]): Promise<boolean[]> {
  const clock = new HandClock();
  const watcher = new MemoryWatcher(clock);
  const made: LimitGroup[] = [];
  for (const [maxBytes, pid] of groups) {
    const group = watcher.group(maxBytes);
    await group.add(pid);
    made.push(group);
  }
  clock.advance(FIRST_LOOK_MS);
  await until("it has looked", () => clock.pending > 0);
  const ranOut = made.map((group) => group.ranOut());
  for (const group of made) group.remove();
  return ranOut;
}

verifies("walls.limits.memory.unmapped", "a file in memory counts that nothing has mapped", async () => {
  const { keeper, end } = await start(`fill(os.memfd_create("own"), 60)`);
  expect(await look([90 * MB, keeper])).toEqual([false]);
  expect(await look([50 * MB, keeper])).toEqual([true]);
  expect(await end()).toBe("ended by 9");
});

verifies("walls.limits.memory.unmapped", "so does a file in /dev/shm without a name", async () => {
  const code = `
path = "/dev/shm/millrace-test-%d" % os.getpid()
own = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
os.unlink(path)
fill(own, 60)`;
  const { keeper, end } = await start(code);
  expect(await look([50 * MB, keeper])).toEqual([true]);
  expect(await end()).toBe("ended by 9");
});

verifies("walls.limits.memory.unmapped", "a file that is mapped as well counts once", async () => {
  const { keeper } = await start(`
own = os.memfd_create("own")
fill(own, 60)
mapped = mmap.mmap(own, 60_000_000)
sum(mapped[at] for at in range(0, len(mapped), 4096))`);
  expect(await look([90 * MB, keeper])).toEqual([false]);
});

verifies(
  "walls.limits.memory.unmapped",
  "of a file that a fork has from its template, each is charged for a part",
  async () => {
    const { keeper, child } = await start(`fill(held, 60)`);
    expect(await look([55 * MB, keeper], [55 * MB, child])).toEqual([false, false]);
  },
);

const NOTHING = { files: new Map(), views: new Map(), mappedBytes: 0, tableBytes: 0 };
const file = (device: number, bytes: number): { device: number; bytes: number } => ({ device, bytes });

verifies(
  "walls.limits.memory.unmapped",
  "what lies in a view of several groups is shared, without what one of them has open or mapped",
  () => {
    const views = new Map([[7, 100]]);
    const all: HeldMemory[] = [
      { ...NOTHING, views, tableBytes: 1 },
      { ...NOTHING, views, files: new Map([["7:1", file(7, 40)]]) },
      { ...NOTHING, files: new Map([["8:1", file(8, 30)]]) },
    ];
    expect(charge(all)).toEqual([
      { files: 0, rest: 30, tables: 1 },
      { files: 40, rest: 30, tables: 0 },
      { files: 30, rest: 0, tables: 0 },
    ]);
    // Both have mapped the same: nothing is left, and never less than that.
    const mapped = all.map((held) => ({ ...held, mappedBytes: 80 }));
    expect(charge(mapped).map(({ rest }) => rest)).toEqual([0, 0, 0]);
  },
);
