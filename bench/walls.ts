import { readSettings } from "../src/config/settings.ts";
import { findInterpreter } from "../src/host/interpreter.ts";
import { probeLevels } from "../src/host/walls/probes.ts";
import { highestLevel } from "../src/host/walls/walls.ts";
import { descendantsOf, endOfReplicas, runMsOf } from "./proc.ts";
import { measureFreshSets } from "./fresh-sets.ts";
import { progress } from "./progress.ts";
import { makeScratchDir } from "./scratch.ts";
import { CALL_BODY, type Subject } from "./subject.ts";
import { type MillraceRunning, startMillrace } from "./subjects/millrace.ts";
import { measureSync, type SubjectResult, type SyncSettings } from "./sync.ts";
import { timedCall } from "./timed-call.ts";
import { turnOrder } from "./turn-order.ts";

/** A start, by the caller's clock and by processor time of the service and all below it. */
export type StartFigures = { readonly ms: number; readonly cpuMs: number };

/** Of both sides, round by round. */
export type Sides<T> = { readonly plain: readonly T[]; readonly walls: readonly T[] };

export type WallsFigures = {
  readonly rounds: number;
  /** What the walls are; null where this host gives none. */
  readonly level: string | null;
  readonly sync: readonly SubjectResult[];
  readonly keptTemplate: Sides<StartFigures>;
  readonly firstStart: Sides<StartFigures>;
  readonly problem: string | null;
};

const SIDES = ["plain", "walls"] as const;
type Side = (typeof SIDES)[number];

/** Measures calls and starts of two services that take turns, one with walls around its apps and one without. */
export async function measureWalls(settings: SyncSettings): Promise<WallsFigures> {
  const keptTemplate: Record<Side, StartFigures[]> = { plain: [], walls: [] };
  const firstStart: Record<Side, StartFigures[]> = { plain: [], walls: [] };
  const { rounds } = settings;
  let sync: readonly SubjectResult[] = [];
  let level: string | null = null;
  let problem: string | null = null;
  try {
    const { path: python } = await findInterpreter("python3");
    const user = readSettings({ flags: {}, env: {} }).settings.uidRange.first;
    level = highestLevel(await probeLevels({ python, dataDir: makeScratchDir(), reads: [], user }));
    if (level === null) throw new Error("this host gives no walls: millrace doctor says what it lacks");
    const isolations: Readonly<Record<Side, string>> = { plain: "none", walls: level };
    const subjects = SIDES.map((side) => subject(side, isolations[side]));
    sync = await measureFreshSets(settings, (each) => measureSync(subjects, each));
    await measureFirstStart(rounds, isolations, firstStart);
    await measureKeptTemplate(rounds, isolations, keptTemplate);
  } catch (error) {
    problem = (error as Error).message;
  }
  return { rounds, level, sync, keptTemplate, firstStart, problem };
}

function subject(side: Side, isolation: string): Subject {
  return {
    id: side === "plain" ? "millrace" : "walls",
    name: side === "plain" ? "without walls" : `with walls (${isolation})`,
    expects: '"hello ada"',
    start: async () => {
      const service = await startMillrace(makeScratchDir(), ["hello"], { isolation });
      const { headers, pid, stop } = service;
      return { url: service.callUrl("hello"), headers, pid, stop };
    },
  };
}

/** The first call of a service that has just been started: no template is there yet. */
async function measureFirstStart(
  rounds: number,
  isolations: Readonly<Record<Side, string>>,
  into: Record<Side, StartFigures[]>,
): Promise<void> {
  const folders = { plain: makeScratchDir(), walls: makeScratchDir() };
  for (const side of SIDES)
    await (await startMillrace(folders[side], ["from-zero"], { isolation: isolations[side] })).stop();
  for (let round = 0; round < rounds; round++) {
    for (const side of turnOrder(SIDES, round)) {
      progress(`first start, ${side}, ${round + 1}/${rounds}`);
      const service = await startMillrace(folders[side], [], { isolation: isolations[side] });
      into[side].push(await timedStart(service, service.callUrl("from-zero")));
      await service.stop();
    }
  }
}

/** From zero replicas; the template has imported the app. */
async function measureKeptTemplate(
  rounds: number,
  isolations: Readonly<Record<Side, string>>,
  into: Record<Side, StartFigures[]>,
): Promise<void> {
  const services: Partial<Record<Side, MillraceRunning>> = {};
  /** How many processes each had right after its last call. */
  const counts = { plain: 0, walls: 0 };
  for (const side of SIDES) {
    progress(`deploying slow-import, ${side}`);
    const service = await startMillrace(makeScratchDir(), ["slow-import"], { isolation: isolations[side] });
    await timedCall(service.callUrl("slow-import"), service.headers, "{}");
    services[side] = service;
    counts[side] = descendantsOf(service.pid).length;
  }
  for (let round = 0; round < rounds; round++) {
    for (const side of turnOrder(SIDES, round)) {
      const service = services[side];
      if (!service) continue;
      progress(`from zero with a kept template, ${side}, ${round + 1}/${rounds}`);
      await endOfReplicas(service.pid, counts[side], 1);
      into[side].push(await timedStart(service, service.callUrl("slow-import")));
      counts[side] = descendantsOf(service.pid).length;
    }
  }
  for (const side of SIDES) await services[side]?.stop();
}

/** Makes a call that has to start a replica. */
async function timedStart(service: MillraceRunning, url: string): Promise<StartFigures> {
  const before = runTimes(service.pid);
  const { ms } = await timedCall(url, service.headers, url.includes("from-zero") ? CALL_BODY : "{}");
  let cpuMs = 0;
  // A process that was not there before counts in full.
  for (const [pid, time] of runTimes(service.pid)) cpuMs += time - (before.get(pid) ?? 0);
  return { ms, cpuMs };
}

/** The processor time in milliseconds of a process and each below it. */
function runTimes(service: number): Map<number, number> {
  return new Map([service, ...descendantsOf(service)].map((pid) => [pid, runMsOf(pid)]));
}
