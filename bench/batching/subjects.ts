import { progress } from "../progress.ts";
import { type Running, Skipped } from "../subject.ts";
import type { MillraceRunning } from "../subjects/millrace.ts";
import { turnOrder } from "../turn-order.ts";
import { startCpuMeter } from "../cpu-meter.ts";
import type { Arrivals, BatchingResult } from "./batching-job.ts";
import type { BatchingLoad } from "./load-client.ts";
import { problemOf } from "../load-job.ts";
import { type Peer, type PeerWay, versionOf } from "./peers.ts";
import { type BatchSetting, FIXED_SETTINGS, fixedFunction, settingText } from "./settings.ts";

/** A round of a subject, and the processor time of all processes that serve it, for each call. */
export type BatchingRound = BatchingResult & { readonly cpuUs: number };

/** One thing to measure. */
export type BatchingSubject = {
  readonly id: string;
  readonly name: string;
  readonly body: string;
  readonly expects: string;
  /** Which version runs, and how. */
  readonly note: string | null;
  readonly server: Pick<Running, "url" | "headers" | "pid"> | null;
  status: "measured" | "skipped" | "failed" | "invalid";
  problem: string | null;
};

const LEAD_IN_MS = 250;
/** One of each batch. */
export const CONNECTIONS = 64;

/** The subjects of our service: not batched, as it comes, and with each fixed policy. */
export function ourSubjects(service: MillraceRunning): BatchingSubject[] {
  const { headers, pid } = service;
  const subject = (id: string, name: string, app: string, functionName: string): BatchingSubject => ({
    id,
    name,
    body: '{"n":3}',
    expects: '"result":3',
    note: null,
    server: { url: service.callUrl(app, functionName), headers, pid },
    status: "measured",
    problem: null,
  });
  return [
    subject("single", "Millrace, not batched", "single", "work"),
    subject("untuned", "Millrace", "batched", "work"),
    ...FIXED_SETTINGS.map((setting) =>
      subject(fixedFunction(setting), `fixed: ${settingText(setting)}`, "batched", fixedFunction(setting)),
    ),
  ];
}

/** Starts a peer in the way in which it answers most calls; of ways that hardly differ, in the one that waits least. */
export async function peerSubject(
  peer: Peer,
  load: BatchingLoad,
  measureMs: number,
): Promise<{ readonly subject: BatchingSubject; readonly stop: () => Promise<void> }> {
  const { id, name, body, expects } = peer;
  const subject = { id, name, body, expects, note: null, server: null, problem: null };
  try {
    const version = await versionOf(peer);
    const way = await bestWay(peer, load, measureMs);
    progress(`starting ${name}`);
    const server = await peer.start(way);
    const note = `${version}, ${[wayText(way)].join(", ")}`;
    return { subject: { ...subject, note, server, status: "measured" }, stop: server.stop };
  } catch (error) {
    const status = error instanceof Skipped ? "skipped" : "failed";
    return { subject: { ...subject, status, problem: (error as Error).message }, stop: async () => {} };
  }
}

type Rated = { readonly way: PeerWay; readonly callsPerSecond: number };

/** First the variant, with one setting, then the setting. */
async function bestWay(peer: Peer, load: BatchingLoad, measureMs: number): Promise<PeerWay> {
  const { variants, settings, name } = peer;
  const middle = settings[Math.floor(settings.length / 2)];
  if (!middle) throw new Error("a peer has no setting");
  const first: Rated[] = [];
  for (const variant of variants) first.push(...(await rate(peer, variant, [middle], load, measureMs)));
  const { variant } = bestOf(first, name);
  return bestOf(await rate(peer, variant, settings, load, measureMs), name);
}

/** The settings with which it answers all calls, and how many per second. */
async function rate(
  peer: Peer,
  variant: string,
  settings: readonly BatchSetting[],
  load: BatchingLoad,
  measureMs: number,
): Promise<Rated[]> {
  const rated: Rated[] = [];
  let server: Running | null = null;
  for (const setting of settings) {
    const way = { ...setting, variant };
    progress(`${peer.name}: trying ${wayText(way)}`);
    try {
      if (server && peer.change) {
        await peer.change(server, setting);
      } else {
        await server?.stop();
        server = await peer.start(way);
      }
      await checkAnswer(server, peer.body, peer.expects);
      const arrivals: Arrivals = { kind: "closed", connections: CONNECTIONS };
      const result = await load.measure(server, peer.body, { arrivals, leadInMs: measureMs, measureMs });
      const problem = problemOf(result);
      if (problem !== null) throw new Error(problem);
      rated.push({ way, callsPerSecond: result.callsPerSecond });
    } catch (error) {
      // Another setting may do better.
      progress(`${peer.name}, ${wayText(way)}: ${(error as Error).message}`);
    }
  }
  await server?.stop();
  return rated;
}

/** Within that of the most calls per second, a shorter wait counts more. */
const HARDLY_LESS = 0.98;

/** The way that answers most calls; of those that hardly differ, the one that waits least. */
export function bestOf(rated: readonly Rated[], name: string): PeerWay {
  const most = Math.max(...rated.map(({ callsPerSecond }) => callsPerSecond));
  const [best] = rated
    .filter(({ callsPerSecond }) => callsPerSecond >= most * HARDLY_LESS)
    .toSorted((a, b) => a.way.waitMs - b.way.waitMs || b.callsPerSecond - a.callsPerSecond);
  if (!best) throw new Error(`${name} answers all calls with no setting`);
  return best.way;
}

function wayText({ variant, ...setting }: PeerWay & BatchSetting): string {
  return variant === "" ? settingText(setting) : `${settingText(setting)}, ${variant}`;
}

/** A fast wrong answer is worth nothing. */
async function checkAnswer(
  { url, headers }: Pick<Running, "url" | "headers">,
  body: string,
  expects: string,
): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body,
  });
  const text = await response.text();
  if (response.status !== 200 || !text.includes(expects))
    throw new Error(`wrong answer, status ${response.status}: ${text.slice(0, 200)}`);
}

/** Has a subject answer once, and then many times. */
export async function warmUp(subject: BatchingSubject, load: BatchingLoad, measureMs: number): Promise<void> {
  const { server, body, expects } = subject;
  if (server === null) return;
  progress(`warming up ${subject.name}`);
  try {
    await checkAnswer(server, body, expects);
    await load.measure(server, body, {
      arrivals: { kind: "closed", connections: CONNECTIONS },
      leadInMs: 0,
      measureMs,
    });
  } catch (error) {
    subject.status = "failed";
    subject.problem = (error as Error).message;
  }
}

/** Measures one round of each subject, which take turns; gives those of the subjects that are sound. */
export async function measureRound(
  subjects: readonly BatchingSubject[],
  load: BatchingLoad,
  round: number,
  pressureOn: (subject: BatchingSubject) => { readonly arrivals: Arrivals; readonly measureMs: number },
): Promise<ReadonlyMap<BatchingSubject, BatchingRound>> {
  const results = new Map<BatchingSubject, BatchingRound>();
  for (const subject of turnOrder(subjects, round)) {
    if (subject.server === null || subject.status !== "measured") continue;
    const { arrivals, measureMs } = pressureOn(subject);
    const meter = startCpuMeter({ service: [subject.server.pid], database: [], load: [load.pid] });
    const result = await load.measure(subject.server, subject.body, {
      arrivals,
      leadInMs: LEAD_IN_MS,
      measureMs,
    });
    const { serviceMs, belowMs } = meter();
    const answered = Object.values(result.statuses).reduce((sum, count) => sum + count, 0);
    results.set(subject, { ...result, cpuUs: ((serviceMs + belowMs) * 1000) / Math.max(1, answered) });
  }
  return results;
}
