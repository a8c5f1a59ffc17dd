import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startLoadGenerator } from "./load-client.ts";
import { problemOf } from "./load-job.ts";
import { type Machine, machineLines } from "./machine.ts";
import { descendantsOf } from "./proc.ts";
import { progress } from "./progress.ts";
import { verdictLines } from "./report.ts";
import { makeScratchDir } from "./scratch.ts";
import { CALL_BODY } from "./subject.ts";
import { type MillraceRunning, startMillrace } from "./subjects/millrace.ts";
import { judge, type Verdict } from "./targets.ts";
import { timedCall } from "./timed-call.ts";

/** In megabytes of 10⁶ bytes; null where the service did not get that far. */
export type MemoryFigures = {
  /** The service, the agent, the template and the replica of one app, with their shares of what they have in common (Pss). */
  readonly idleMb: number | null;
  /** The same a minute after a load. */
  readonly afterLoadMb: number | null;
  /** What one more replica has to itself. */
  readonly replicaMb: number | null;
  /** What a service grows by with apps that have no process. */
  readonly coldAppsMb: number | null;
  readonly problem: string | null;
};

type Kind = "Pss" | "Private";

const LOAD_MS = 10_000;
const CONNECTIONS = 32;
/** The service collects its garbage every 10 s while it is idle, as often as that gives something back. */
const SETTLE_MS = 35_000;
const AFTER_LOAD_MS = 60_000;
const COLD_APPS = 100;
const MORE_REPLICAS = 3;
const HOLD_SECONDS = 1.5;
/** As `bin/millrace` sets them. */
const MALLOC = { MALLOC_MMAP_THRESHOLD_: "1048576", MALLOC_TRIM_THRESHOLD_: "4194304" };

/** Measures what the service and its apps hold, idle and after a load. Takes four minutes, most of them idle. */
export async function measureMemory(): Promise<MemoryFigures> {
  Object.assign(process.env, MALLOC);
  const found: { -readonly [Name in keyof MemoryFigures]: MemoryFigures[Name] } = {
    idleMb: null,
    afterLoadMb: null,
    replicaMb: null,
    coldAppsMb: null,
    problem: null,
  };
  try {
    progress("one app");
    const one = await startMillrace(makeScratchDir(), ["hello"], { mayCollect: true });
    await timedCall(one.callUrl("hello"), one.headers, CALL_BODY);
    await pause(SETTLE_MS);
    found.idleMb = megabytesOf(allOf(one), "Pss");
    progress("a load, and a minute after it");
    await load(one);
    await pause(AFTER_LOAD_MS);
    found.afterLoadMb = megabytesOf(allOf(one), "Pss");
    await one.stop();
    progress("more replicas");
    found.replicaMb = await measureReplica();
    progress(`${COLD_APPS} apps without a process`);
    found.coldAppsMb = (await serviceWith(COLD_APPS)) - (await serviceWith(0));
  } catch (error) {
    found.problem = (error as Error).message;
  }
  return found;
}

/** The promises on memory. */
export function judgeMemory({ idleMb, afterLoadMb, replicaMb, coldAppsMb }: MemoryFigures): Verdict[] {
  const bound = { bound: "at most", spread: null } as const;
  const megabytes = { ...bound, unit: "MB" } as const;
  return [
    judge({ ...megabytes, what: "idle, one app, with all its processes", target: 150, value: idleMb }),
    judge({
      ...bound,
      unit: "ratio",
      what: "a minute after a load / idle",
      target: 1.15,
      value: afterLoadMb === null || idleMb === null ? null : afterLoadMb / idleMb,
    }),
    judge({ ...megabytes, what: "one more replica, its own", target: 6, value: replicaMb }),
    judge({ ...megabytes, what: `${COLD_APPS} apps without a process`, target: 30, value: coldAppsMb }),
  ];
}

/** The table of `bench memory`, for people. */
export function memoryText(machine: Machine, figures: MemoryFigures, verdicts: readonly Verdict[]): string {
  const { problem } = figures;
  const failed = problem === null ? [] : ["", `failed: ${problem}`];
  return [...machineLines(machine), "", ...verdictLines(verdicts), ...failed].join("\n");
}

async function load(service: MillraceRunning): Promise<void> {
  const generator = startLoadGenerator();
  const target = {
    url: service.callUrl("hello"),
    headers: service.headers,
    pid: service.pid,
    stop: service.stop,
  };
  const result = await generator.measure(target, {
    connections: CONNECTIONS,
    leadInMs: 0,
    measureMs: LOAD_MS,
  });
  await generator.stop();
  const problem = problemOf(result);
  if (problem !== null) throw new Error(problem);
}

/** The replica has a keeper; both count. */
async function measureReplica(): Promise<number> {
  const service = await startMillrace(makeScratchDir(), ["slow-import"]);
  const url = service.callUrl("slow-import", "hold");
  const hold = async (count: number): Promise<number> => {
    const body = JSON.stringify({ seconds: HOLD_SECONDS });
    const calls = Array.from({ length: count }, () => timedCall(url, service.headers, body));
    await pause((HOLD_SECONDS * 1000) / 2);
    const held = megabytesOf(descendantsOf(service.pid), "Private");
    await Promise.all(calls);
    return held;
  };
  // The first one waits for the import.
  await timedCall(service.callUrl("slow-import"), service.headers, "{}");
  const one = await hold(1);
  const more = await hold(1 + MORE_REPLICAS);
  await service.stop();
  return (more - one) / MORE_REPLICAS;
}

/** What a service holds by itself that has so many apps, once it has started with them. */
async function serviceWith(apps: number): Promise<number> {
  const dataDir = makeScratchDir();
  const folders = Array.from({ length: apps }, (_, place) => coldApp(place));
  await (await startMillrace(dataDir, folders)).stop();
  const service = await startMillrace(dataDir, [], { mayCollect: true });
  await pause(SETTLE_MS);
  const held = megabytesOf([service.pid], "Pss");
  await service.stop();
  return held;
}

function coldApp(place: number): string {
  const folder = join(makeScratchDir(), `app-${place}`);
  mkdirSync(folder);
  writeFileSync(join(folder, "main.py"), "def run():\n    return True\n");
  const scaling = "[scaling]\nmin_replicas = 0\ntemplate_keep = 0\n";
  writeFileSync(join(folder, "cerebrium.toml"), `[deployment]\nname = "app-${place}"\n\n${scaling}`);
  return folder;
}

function allOf({ pid }: MillraceRunning): number[] {
  return [pid, ...descendantsOf(pid)];
}

function megabytesOf(pids: readonly number[], kind: Kind): number {
  return pids.reduce((sum, pid) => sum + kilobytesOf(pid, kind), 0) * (1024 / 1e6);
}

function kilobytesOf(pid: number, kind: Kind): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, "latin1");
    const names = kind === "Pss" ? ["Pss"] : ["Private_Clean", "Private_Dirty"];
    return names.reduce(
      (sum, name) => sum + Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0),
      0,
    );
  } catch {
    return 0; // It has just ended.
  }
}
