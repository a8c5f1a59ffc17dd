import { progress } from "../progress.ts";
import { problemOf } from "../load-job.ts";
import { medianBy } from "../targets.ts";
import type { Arrivals } from "./batching-job.ts";
import { type BatchingLoad, startBatchingLoad } from "./load-client.ts";
import { startOurs } from "./ours.ts";
import { FIXED_PREFIX } from "./settings.ts";
import { PEER_IDS, PEERS, type PeerId } from "./peers.ts";
import {
  type BatchingRound,
  type BatchingSubject,
  CONNECTIONS,
  measureRound,
  ourSubjects,
  peerSubject,
  warmUp,
} from "./subjects.ts";

/** What may be left out. */
export const BATCHING_PART_IDS = ["fixed", "peers", "paced", "overload", "curve"] as const;
type BatchingPartId = (typeof BATCHING_PART_IDS)[number];

export type BatchingSettings = {
  readonly parts: readonly BatchingPartId[];
  readonly rounds: number;
  readonly measureMs: number;
  readonly warmUpMs: number;
};

/** A subject, and what it did under the load of 64 connections. */
export type Measured = Pick<BatchingSubject, "id" | "name" | "note" | "status" | "problem"> & {
  readonly rounds: readonly BatchingRound[];
};

/** Ours and a peer at a share of the peer's own maximum, round by round. */
export type Paced = {
  readonly peer: PeerId;
  readonly share: number;
  readonly perSecond: number;
  readonly ours: readonly BatchingRound[];
  readonly theirs: readonly BatchingRound[];
};

/** A subject at one rate of calls. */
export type CurvePoint = BatchingRound & { readonly perSecond: number };

export type BatchingFigures = {
  readonly subjects: readonly Measured[];
  /** One connection, round by round. */
  readonly lone: { readonly single: readonly BatchingRound[]; readonly untuned: readonly BatchingRound[] };
  readonly paced: readonly Paced[];
  /** Ours at 64 connections, and right after that at more calls than it answered. */
  readonly overload: { readonly most: readonly BatchingRound[]; readonly beyond: readonly BatchingRound[] };
  readonly curves: readonly (Pick<BatchingSubject, "id" | "name"> & {
    readonly points: readonly CurvePoint[];
  })[];
  readonly problem: string | null;
};

const SHARES = [0.1, 0.5, 0.9] as const;
export const OVERLOAD = 1.1;
/** The best of the fixed policies, in the rounds beside the others. */
export const BEST_FIXED = "fixed";
/** To find the best of them takes fewer rounds. */
const FIXED_ROUNDS_SHARE = 3;
/** Shares of each subject's own maximum, for the plots. */
const CURVE_SHARES = [0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1, 1.1, 1.2] as const;
/** At a rate a round is so much longer: at a tenth of the maximum there are few calls. */
const PACED_LONGER = 3;
/** Of connections that call again at once there are enough calls. */
const PACED_ROUNDS_SHARE = 2;
const SWEEP_MS = 2_000;

/** A running measurement; only this file changes it. */
type World = {
  readonly load: BatchingLoad;
  readonly settings: BatchingSettings;
  readonly subjects: readonly BatchingSubject[];
  readonly rounds: Map<string, BatchingRound[]>;
};

/** Measures all subjects under the same load. All are up from the start and take turns round by round. */
export async function measureBatching(settings: BatchingSettings): Promise<BatchingFigures> {
  const has = (part: BatchingPartId) => settings.parts.includes(part);
  const load = startBatchingLoad();
  const stops: (() => Promise<void>)[] = [load.stop];
  let subjects: BatchingSubject[] = [];
  const rounds = new Map<string, BatchingRound[]>();
  const lone = { single: [] as BatchingRound[], untuned: [] as BatchingRound[] };
  const overload = { most: [] as BatchingRound[], beyond: [] as BatchingRound[] };
  let paced: Paced[] = [];
  let curves: BatchingFigures["curves"] = [];
  let problem: string | null = null;
  try {
    const sweepMs = Math.min(SWEEP_MS, settings.measureMs * 2);
    for (const peer of has("peers") ? PEERS : []) {
      const { subject, stop } = await peerSubject(peer, load, sweepMs);
      subjects.push(subject);
      stops.push(stop);
    }
    progress("starting Millrace");
    const service = await startOurs();
    stops.push(service.stop);
    const ours = ourSubjects(service).filter((subject) => has("fixed") || !isFixed(subject));
    subjects = [...ours, ...subjects];
    const world: World = { load, settings, subjects, rounds };
    // Twice: the first subjects of a service warm up its code for those that follow.
    for (const subject of [...subjects, ...ours]) await warmUp(subject, load, settings.warmUpMs);
    if (has("fixed")) {
      const best = await bestFixed(world);
      if (best) subjects.push(best);
    }
    await measureMost(world);
    await measureLone(world, lone);
    if (has("paced")) paced = await measurePaced(world);
    if (has("overload")) await measureOverload(world, overload);
    if (has("curve")) curves = await measureCurves(world);
  } catch (error) {
    problem = (error as Error).message;
  }
  for (const stop of stops) await stop();
  const measured = subjects.map(({ id, name, note, status, problem: why }) => ({
    id,
    name,
    note,
    status,
    problem: why,
    rounds: rounds.get(id) ?? [],
  }));
  return { subjects: measured, lone, paced, overload, curves, problem };
}

/** The fixed policy that answers most calls. It is measured again beside the others: the best of many was lucky, too. */
async function bestFixed(world: World): Promise<BatchingSubject | null> {
  const fixed = world.subjects.filter(isFixed);
  const count = Math.ceil(world.settings.rounds / FIXED_ROUNDS_SHARE);
  await measureClosed(world, fixed, count, "fixed policies");
  const best = bestBy(fixed, ({ id }) => mostOf(world.rounds.get(id)));
  return best && { ...best, id: BEST_FIXED, name: `the best: ${best.name}` };
}

async function measureMost(world: World): Promise<void> {
  const finalists = world.subjects.filter((subject) => !isFixed(subject));
  await measureClosed(world, finalists, world.settings.rounds, `${CONNECTIONS} connections`);
}

async function measureClosed(
  { load, settings, rounds }: World,
  subjects: readonly BatchingSubject[],
  count: number,
  title: string,
): Promise<void> {
  const pressure = { arrivals: closed(CONNECTIONS), measureMs: settings.measureMs };
  for (let round = 0; round < count; round++) {
    progress(`${title}, round ${round + 1}/${count}`);
    for (const [subject, result] of await measureRound(subjects, load, round, () => pressure)) {
      const problem = problemOf(result);
      if (problem !== null) Object.assign(subject, { status: "invalid", problem });
      else rounds.set(subject.id, [...(rounds.get(subject.id) ?? []), result]);
    }
  }
}

async function measureLone(
  { subjects, load, settings }: World,
  lone: { readonly single: BatchingRound[]; readonly untuned: BatchingRound[] },
): Promise<void> {
  for (let round = 0; round < settings.rounds; round++) {
    progress(`a lone caller, round ${round + 1}/${settings.rounds}`);
    const both = subjects.filter(({ id }) => id === "single" || id === "untuned");
    const pressure = { arrivals: closed(1), measureMs: settings.measureMs };
    for (const [{ id }, result] of await measureRound(both, load, round, () => pressure))
      lone[id as "single" | "untuned"].push(sound(result, "a lone caller"));
  }
}

async function measurePaced({ subjects, load, settings, rounds }: World): Promise<Paced[]> {
  const untuned = find(subjects, "untuned");
  const paced: Paced[] = [];
  const measureMs = settings.measureMs * PACED_LONGER;
  for (const peer of PEER_IDS) {
    const theirs = find(subjects, peer);
    const most = mostOf(rounds.get(peer));
    if (!theirs || !untuned || most === null) continue;
    for (const share of SHARES) {
      const perSecond = most * share;
      const both: { ours: BatchingRound[]; theirs: BatchingRound[] } = { ours: [], theirs: [] };
      const count = Math.ceil(settings.rounds / PACED_ROUNDS_SHARE);
      for (let round = 0; round < count; round++) {
        progress(`${theirs.name} at ${share * 100} % of its maximum, round ${round + 1}/${count}`);
        const pressure = { arrivals: open(perSecond), measureMs };
        const results = await measureRound([untuned, theirs], load, round, () => pressure);
        const [mine, its] = [results.get(untuned), results.get(theirs)];
        if (!mine || !its) continue;
        both.ours.push(sound(mine, `Millrace at ${Math.round(perSecond)} calls/s`));
        both.theirs.push(its);
      }
      paced.push({ peer, share, perSecond, ...both });
    }
  }
  return paced;
}

async function measureOverload(
  { subjects, load, settings }: World,
  { most, beyond }: { readonly most: BatchingRound[]; readonly beyond: BatchingRound[] },
): Promise<void> {
  const untuned = subjects.filter(({ id }) => id === "untuned");
  const count = Math.ceil(settings.rounds / PACED_ROUNDS_SHARE);
  const measureMs = settings.measureMs * PACED_LONGER;
  for (let round = 0; round < count; round++) {
    progress(`more calls than are answered, round ${round + 1}/${count}`);
    const atMost = { arrivals: closed(CONNECTIONS), measureMs };
    const [before] = (await measureRound(untuned, load, round, () => atMost)).values();
    if (!before) return;
    const pressure = { arrivals: open(before.callsPerSecond * OVERLOAD), measureMs };
    const [after] = (await measureRound(untuned, load, round, () => pressure)).values();
    if (!after) return;
    most.push(before);
    beyond.push(after);
  }
}

async function measureCurves({
  subjects,
  load,
  settings,
  rounds,
}: World): Promise<BatchingFigures["curves"]> {
  const shown = subjects.filter(({ id }) => id !== BEST_FIXED && !isFixed({ id }) && rounds.has(id));
  const points = new Map<string, CurvePoint[]>();
  for (const [index, share] of CURVE_SHARES.entries()) {
    progress(`for the plots: at ${Math.round(share * 100)} % of each one's maximum`);
    const rateOf = ({ id }: BatchingSubject) => (mostOf(rounds.get(id)) ?? 0) * share;
    const measureMs = settings.measureMs * PACED_LONGER;
    const pressureOn = (subject: BatchingSubject) => ({ arrivals: open(rateOf(subject)), measureMs });
    for (const [subject, result] of await measureRound(shown, load, index, pressureOn)) {
      const point = { ...result, perSecond: rateOf(subject) };
      points.set(subject.id, [...(points.get(subject.id) ?? []), point]);
    }
  }
  return shown.map(({ id, name }) => ({ id, name, points: points.get(id) ?? [] }));
}

function isFixed({ id }: Pick<BatchingSubject, "id">): boolean {
  return id.startsWith(FIXED_PREFIX);
}

/** The one with the highest value; null if none has one. */
export function bestBy<T>(all: readonly T[], valueOf: (one: T) => number | null): T | null {
  const able = all.filter((one) => valueOf(one) !== null);
  return able.toSorted((a, b) => (valueOf(b) ?? 0) - (valueOf(a) ?? 0))[0] ?? null;
}

function closed(connections: number): Arrivals {
  return { kind: "closed", connections };
}

function open(perSecond: number): Arrivals {
  return { kind: "open", perSecond };
}

function find(subjects: readonly BatchingSubject[], id: string): BatchingSubject | undefined {
  return subjects.find((subject) => subject.id === id && subject.status === "measured");
}

/** The calls per second of the round in the middle. */
function mostOf(rounds: readonly BatchingRound[] | undefined): number | null {
  return medianBy(rounds ?? [], ({ callsPerSecond }) => callsPerSecond)?.callsPerSecond ?? null;
}

function sound(result: BatchingRound, what: string): BatchingRound {
  const problem = problemOf(result);
  if (problem !== null) throw new Error(`${what}: ${problem}`);
  return result;
}
