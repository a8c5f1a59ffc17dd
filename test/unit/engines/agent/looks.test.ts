import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { agentPython } from "./agent-python.ts";

const AGENT = 100;
const PAGE = 4096;

type Told = {
  readonly parent: number;
  readonly state?: string;
  /** Its own in user and kernel mode, then those of children that it has reaped. */
  readonly ticks?: readonly [number, number, number, number];
  readonly pages?: number;
  /** By thread: the children of each, or null for a thread that ends while it is looked at. */
  readonly children?: readonly (readonly number[] | null)[];
  /** What each thread has used. */
  readonly threadTicks?: readonly number[];
};
type Looked = {
  readonly usage: { readonly cpu_ms: number; readonly resident_bytes: number } | null;
  readonly vitals: { readonly is_stopped: boolean; readonly threads: [number, number, boolean][] } | null;
};

/** Has the modules read another folder in place of /proc. */
const LOOK = `
import builtins
really_open, really_list = open, os.listdir
def played(path):
    return sys.argv[1] + path[5:] if str(path).startswith("/proc/") else path
builtins.open = lambda path, *rest, **named: really_open(played(path), *rest, **named)
os.listdir = lambda path: sorted(really_list(played(path)), key=int)
from millrace_agent import looks
print(json.dumps([looks.look_at(int(pid), int(sys.argv[2])) for pid in sys.argv[3:]]))
`;

/** What is told of processes below one, on a machine whose kernel says what the test says. */
function looksAt(machine: Readonly<Record<number, Told>>, pids: readonly number[], above = AGENT): Looked[] {
  const proc = mkdtempSync(path.join(tmpdir(), "proc-"));
  onTestFinished(() => rmSync(proc, { recursive: true }));
  for (const [pid, told] of Object.entries(machine)) addProcess(proc, Number(pid), told);
  return agentPython(LOOK, proc, `${above}`, ...pids.map(String)) as Looked[];
}

function addProcess(proc: string, pid: number, told: Told): void {
  const { parent, state = "S", ticks = [0, 0, 0, 0], pages = 0, threadTicks } = told;
  const children = told.children ?? threadTicks?.map(() => []) ?? [[]];
  const zeros = (count: number): string => Array(count).fill("0").join(" ");
  const stat = (of: readonly number[]): string =>
    `${pid} (a ) name) ${state} ${parent} ${zeros(9)} ${of.join(" ")} ${zeros(2)} ${children.length} ${zeros(3)} ${pages} ${zeros(3)}\n`;
  for (const [place, each] of children.entries()) {
    const thread = path.join(proc, `${pid}`, "task", `${pid + place}`);
    mkdirSync(thread, { recursive: true });
    if (each === null) continue;
    writeFileSync(path.join(thread, "children"), each.map((child) => `${child} `).join(""));
    writeFileSync(path.join(thread, "stat"), stat([threadTicks?.[place] ?? 0, 0, 0, 0]));
  }
  writeFileSync(path.join(proc, `${pid}`, "stat"), stat(ticks));
}

const usage = (cpuMs: number, pages: number) => ({ cpu_ms: cpuMs, resident_bytes: pages * PAGE });
const idsOf = (looked: Looked | undefined) => looked?.vitals?.threads.map(([id, usedMs]) => [id, usedMs]);

/** Two forks of a template, each below a keeper of its own. */
const FORKS = {
  1: { parent: 0 },
  [AGENT]: { parent: 1, children: [[200]] },
  200: { parent: AGENT, ticks: [1_000, 0, 0, 0], pages: 1_000, children: [[300, 400]] },
  // It has worked itself, and reaped a process that it had adopted.
  300: { parent: 200, ticks: [90, 9, 5, 6], pages: 1_000, children: [[301, 309]] },
  301: { parent: 300, ticks: [1, 2, 3, 4], pages: 10, children: [[], [302], []] },
  302: { parent: 301, ticks: [10, 20, 0, 0], pages: 100 },
  309: { parent: 300, ticks: [100, 0, 0, 0], pages: 7 },
  400: { parent: 200, children: [[401]] },
  401: { parent: 400, ticks: [7, 0, 0, 0], pages: 1 },
} as const satisfies Record<number, Told>;

test("a replica is all that lives below its keeper, with the time of what has ended, without the keeper's own", () => {
  const [first, second] = looksAt(FORKS, [301, 401]);
  expect([first?.usage, second?.usage]).toEqual([usage(1_510, 117), usage(70, 1)]);
});

test("nothing is told of a process that is not below the agent, or has ended", () => {
  const nothing = { usage: null, vitals: null };
  expect(looksAt(FORKS, [1, AGENT, 999])).toEqual([nothing, nothing, nothing]);
  expect(looksAt(FORKS, [301], 400)).toEqual([nothing]);
  expect(looksAt(FORKS, [301, 309, 401])).not.toContainEqual(nothing);
});

test("of a process with many threads, the children of the first ones are found", () => {
  const many = Array.from({ length: 100 }, (_, place) => (place === 0 ? [302] : place === 99 ? [303] : []));
  const machine = {
    1: { parent: 0 },
    [AGENT]: { parent: 1, children: [[1_000]] },
    1_000: { parent: AGENT, children: many },
    302: { parent: 1_000, pages: 1 },
    303: { parent: 1_000, pages: 10 },
  };
  expect(looksAt(machine, [1_000])[0]?.usage).toEqual(usage(0, 1));
});

test("a thread that ends meanwhile hides neither the others nor their children", () => {
  const machine = {
    1: { parent: 0 },
    [AGENT]: { parent: 1, children: [[1_000]] },
    1_000: { parent: AGENT, children: [[], null, [302]], threadTicks: [1, 2, 3] },
    302: { parent: 1_000, pages: 5 },
  };
  const [seen] = looksAt(machine, [1_000]);
  expect(seen?.usage).toEqual(usage(0, 5));
  expect(idsOf(seen)).toEqual([
    [1_000, 10],
    [1_002, 30],
  ]);
});

test("a process that ends meanwhile is left out, and of very many only some are looked at", () => {
  const children = Array.from({ length: 100 }, (_, place) => 1_000 + place);
  const machine = {
    ...Object.fromEntries(children.map((pid) => [pid, { parent: 301, pages: 1 }])),
    1: { parent: 0 },
    [AGENT]: { parent: 1, children: [[301]] },
    301: { parent: AGENT, pages: 1, children: [[998, 999, ...children]] },
  };
  // Itself, two that are gone, and 61 more.
  expect(looksAt(machine, [301])[0]?.usage).toEqual(usage(0, 62));
});

test("each thread is seen, and of many only what all have used", () => {
  const machine = {
    1: { parent: 0 },
    [AGENT]: { parent: 1 },
    1_000: { parent: AGENT, threadTicks: [3, 4] },
    2_000: { parent: AGENT, threadTicks: Array<number>(64).fill(1) },
    3_000: { parent: AGENT, ticks: [100, 30, 0, 0], threadTicks: Array<number>(65).fill(2) },
  } as const;
  const [two, some, many] = looksAt(machine, [1_000, 2_000, 3_000]).map(idsOf);
  expect(two).toEqual([
    [1_000, 30],
    [1_001, 40],
  ]);
  expect(some).toHaveLength(64);
  expect(many).toEqual([[0, 1_300]]);
});

test("a stopped process is reported as such, and one that runs as runnable", () => {
  const states = ["T", "t", "Z", "X", "R", "S"];
  const pids = states.map((_, place) => 1_000 * (place + 1));
  const machine = {
    1: { parent: 0 },
    [AGENT]: { parent: 1 },
    ...Object.fromEntries(pids.map((pid, place) => [pid, { parent: AGENT, state: states[place] ?? "" }])),
  };
  const seen = looksAt(machine, pids).map(({ vitals }) => vitals);
  for (const each of seen.slice(0, 4)) expect(each).toMatchObject({ is_stopped: true, threads: [] });
  expect(seen[4]).toMatchObject({ is_stopped: false, threads: [[5_000, 0, true]] });
  expect(seen[5]).toMatchObject({ is_stopped: false, threads: [[6_000, 0, false]] });
});

/** Real processes: one that holds 32 MiB and computes in a thread of its own, which has also started a child. */
const REAL = `
import signal, subprocess, threading
from millrace_agent import looks

def family():
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        held = b"x" * (32 << 20)
        def work():
            child = subprocess.Popen(["sleep", "1000"])
            os.write(tell, b"%d" % child.pid)
            while True:
                pass
        threading.Thread(target=work).start()
        signal.pause()
    return pid, int(os.read(told, 20))

pid, child = family()
try:
    while True:
        seen = looks.look_at(pid)
        if any(used > 0 for _, used, _ in seen["vitals"]["threads"]):
            break
    print(json.dumps([
        len(seen["vitals"]["threads"]), child in looks.below(os.getpid()), seen["usage"]["resident_bytes"] > 32 << 20,
        looks.look_at(os.getppid()), looks.look_at(os.getpid()),
    ]), end=" ")
finally:
    os.kill(pid, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
`;

test("the kernel's own files are read like that", () => {
  const nothing = { usage: null, vitals: null };
  expect(agentPython(REAL)).toEqual([2, true, true, nothing, nothing]);
});
