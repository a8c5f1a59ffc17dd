import { readFileSync, readdirSync, readlinkSync, statSync, statfsSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { threadsOf } from "../proc-stat.ts";

/** Where programs keep memory that they share by name: the host's, or an app's own. */
const SHARED_MEMORY = "/dev/shm";
const TMPFS = 0x01021994;
const BLOCK_BYTES = 512;
/** How the links of descriptors begin that hold a file in memory. */
const IN_MEMORY = ["/memfd:", `${SHARED_MEMORY}/`] as const;
/** Of one group in one look, some 50 ms of work: an app can have millions. If it has more, each look sees others. */
const MAX_DESCRIPTORS = 10_000;
/** So many are read before others get their turn: about 1 ms. */
const AT_ONCE = 256;

/** What the processes of a group hold in memory, whether or not they have mapped it. */
export type HeldMemory = {
  /** Files and segments, by a name that is the same for each process that holds them. */
  readonly files: ReadonlyMap<string, { readonly device: number; readonly bytes: number }>;
  /** The bytes in file systems for shared memory that the host does not see, by device. */
  readonly views: ReadonlyMap<number, number>;
  /** What of such memory the processes have mapped; what two of them have mapped counts twice. */
  readonly mappedBytes: number;
  /** What the kernel needs to map the memory of the processes. */
  readonly tableBytes: number;
};

/** A System V segment of this process's namespace. */
export type Segment = { readonly name: string; readonly creator: number; readonly bytes: number };

/** How much memory all processes of the host together can hold without having it mapped; infinite if unknown. */
export function unmappedOnHost(): number {
  try {
    const text = readFileSync("/proc/meminfo", "latin1");
    return bytesOf(text, "Shmem") + bytesOf(text, "PageTables");
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** The segments of this namespace. Apps on `userns` and `uid` have namespaces of their own, which the kernel bounds. */
export function segments(): Segment[] {
  try {
    const [head = "", ...rows] = readFileSync("/proc/sysvipc/shm", "latin1").trim().split("\n");
    const names = head.trim().split(/ +/);
    return rows.map((row) => {
      const words = row.trim().split(/ +/);
      const numberOf = (name: string): number => Number(words[names.indexOf(name)]);
      return { name: `segment:${numberOf("shmid")}`, creator: numberOf("cpid"), bytes: numberOf("rss") };
    });
  } catch {
    return []; // A kernel without System V memory.
  }
}

/**
 * Counts what these processes hold. Those that hide their descriptors, as processes can from a service that is not
 * root, are charged for what can be seen.
 */
export async function heldBy(pids: readonly number[], made: readonly Segment[]): Promise<HeldMemory> {
  const files = new Map<string, { device: number; bytes: number }>();
  const views = new Map<number, number>();
  let [mappedBytes, tableBytes] = [0, 0];
  const own = new Set(pids);
  for (const { name, creator, bytes } of made) if (own.has(creator)) files.set(name, { device: 0, bytes });
  const hosts = deviceOf(SHARED_MEMORY);
  const tables: string[] = [];
  for (const pid of pids) {
    const threads = threadsOf(pid, "/proc");
    const told = statusOf(threads);
    mappedBytes += bytesOf(told, "RssShmem");
    tableBytes += bytesOf(told, "VmPTE");
    addView(pid, hosts, views);
    // Each of its own: a thread can have descriptors that the others do not share.
    tables.push(...threads.map((thread) => `/proc/${thread}/fd`));
  }
  let left = MAX_DESCRIPTORS;
  for (const table of fromAnywhere(tables)) {
    for (const name of fromAnywhere(namesIn(table))) {
      if (left-- === 0) return { files, views, mappedBytes, tableBytes };
      if (left % AT_ONCE === 0) await nextTurn();
      addDescriptor(`${table}/${name}`, files);
    }
  }
  return { files, views, mappedBytes, tableBytes };
}

/**
 * What each of several groups is charged for. Of a file that more than one holds, as forks inherit it from their
 * template, each is charged for a part; and so of what is in a view that they share and none has open or mapped.
 */
export function charge(all: readonly HeldMemory[]): { files: number; rest: number; tables: number }[] {
  const holders = new Map<string, number>();
  const views = new Map<number, { used: number; groups: number }>();
  for (const { files, views: own } of all) {
    for (const name of files.keys()) holders.set(name, (holders.get(name) ?? 0) + 1);
    for (const [device, used] of own)
      views.set(device, { used, groups: (views.get(device)?.groups ?? 0) + 1 });
  }
  const counted = new Set<string>();
  for (const { files, views: own, mappedBytes } of all) {
    for (const [name, { device, bytes }] of files) {
      const view = views.get(device);
      if (view && !counted.has(name)) view.used -= bytes;
      counted.add(name);
    }
    for (const device of own.keys()) (views.get(device) ?? { used: 0 }).used -= mappedBytes;
  }
  return all.map(({ files, views: own, tableBytes }) => ({
    files: sum(Array.from(files, ([name, { bytes }]) => bytes / (holders.get(name) ?? 1))),
    rest: sum(
      Array.from(own.keys(), (device) => {
        const { used, groups } = views.get(device) ?? { used: 0, groups: 1 };
        return Math.max(0, used) / groups;
      }),
    ),
    tables: tableBytes,
  }));
}

/** A line of the kernel's that names kilobytes; 0 if there is none. */
export function bytesOf(text: string, name: string): number {
  const [, kilobytes] = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text) ?? [];
  return Number(kilobytes ?? 0) * 1024;
}

/** What the kernel tells of a process's memory. Its first thread knows nothing of that if it has ended before others. */
export function statusOf(threads: readonly string[]): string {
  for (const thread of threads) {
    try {
      const told = readFileSync(`/proc/${thread}/status`, "latin1");
      if (told.includes("\nVmPTE:")) return told;
    } catch {
      // It has just ended, and others may not have.
    }
  }
  return "";
}

function addView(pid: number, hosts: number | null, views: Map<number, number>): void {
  const folder = `/proc/${pid}/root${SHARED_MEMORY}`;
  const device = deviceOf(folder);
  if (device === null || device === hosts || views.has(device)) return;
  try {
    const { type, blocks, bfree, bsize } = statfsSync(folder);
    if (type === TMPFS) views.set(device, (blocks - bfree) * bsize);
  } catch {
    // It has just ended.
  }
}

function addDescriptor(link: string, files: Map<string, { device: number; bytes: number }>): void {
  try {
    const target = readlinkSync(link);
    // Nothing else is looked at: to ask for a file on a network may take forever.
    if (!IN_MEMORY.some((prefix) => target.startsWith(prefix))) return;
    const { dev, ino, blocks } = statSync(link);
    files.set(`${dev}:${ino}`, { device: dev, bytes: blocks * BLOCK_BYTES });
  } catch {
    // It was closed, its process has ended, or it is hidden.
  }
}

function deviceOf(folder: string): number | null {
  try {
    return statSync(folder).dev;
  } catch {
    return null;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** All of them, from a random one on. */
function* fromAnywhere(names: readonly string[]): Generator<string> {
  const first = Math.floor(Math.random() * names.length);
  yield* names.slice(first);
  yield* names.slice(0, first);
}

/** All of them together. */
export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
