import { join } from "node:path";
import { openFilesLimitOf } from "./proc.ts";
import { progress } from "./progress.ts";
import { quietEndOf, startStreamClient } from "./stream-client.ts";
import type { StreamClient, StreamPressure, StreamRound } from "./stream-client.ts";
import { streamProblemOf } from "./stream-job.ts";
import type { Part } from "./stream-parts.ts";
import type { StreamServer, StreamSubject } from "./stream-subjects.ts";
import { Skipped } from "./subject.ts";
import { turnOrder } from "./turn-order.ts";

export type StreamSettings = {
  readonly rounds: number;
  readonly measureMs: number;
  /** Where Millrace's CPU profiles go, one folder per part. */
  readonly profileDir: string | undefined;
};

/** What one subject did in one part: its rounds, or why there are none. */
export type StreamSubjectResult = {
  readonly id: StreamSubject["id"];
  readonly name: string;
  readonly note: string | null;
  readonly status: "measured" | "skipped" | "failed" | "invalid";
  readonly problem: string | null;
  readonly rounds: readonly StreamRound[];
};

export type PartResult = { readonly part: Part; readonly subjects: readonly StreamSubjectResult[] };

/** One subject during a part; only this file changes it. */
type Entry = {
  readonly subject: StreamSubject;
  server: StreamServer | null;
  status: StreamSubjectResult["status"];
  problem: string | null;
  /** How many messages of one fast generator fill the window. */
  fastMessages: number;
  readonly rounds: StreamRound[];
};

const WARM_UP_STREAMS = 100;
const WARM_UP_MS = 600;
/** A few first, to learn the pace; then for half a second, to have all code compiled. */
const FIRST_MESSAGES = 20_000;
const MAX_FAST_MS = 30_000;
/** Connections of a process that are none of the streams: the database, replicas, logs. */
const OTHER_FILES = 300;
/** The first moments of all streams together say nothing. */
const LEAD_IN_MS = 500;
const LAST_END_MS = 5_000;

/** Measures the parts one after the other; within a part the subjects are all up and take turns. */
export async function measureStream(parts: readonly Part[], settings: StreamSettings): Promise<PartResult[]> {
  const client = startStreamClient();
  const results: PartResult[] = [];
  for (const part of parts) results.push(await measurePart(part, client, settings));
  await client.stop();
  return results;
}

async function measurePart(part: Part, client: StreamClient, settings: StreamSettings): Promise<PartResult> {
  const entries: Entry[] = part.subjects.map((subject) => ({
    subject,
    server: null,
    status: "measured",
    problem: null,
    fastMessages: 0,
    rounds: [],
  }));
  const measureMs = part.measureMs ?? settings.measureMs;
  for (const entry of entries) await startEntry(entry, part, client, { ...settings, measureMs });
  const rounds = part.isOnce ? 1 : settings.rounds;
  for (let round = 0; round < rounds; round++) {
    for (const entry of turnOrder(entries, round)) {
      if (entry.status !== "measured") continue;
      progress(`${part.title}, round ${round + 1}/${rounds}: ${entry.subject.name}`);
      await attempt(entry, () => measureRound(entry, part, client, measureMs));
    }
  }
  for (const { server } of entries) await server?.stop();
  const subjects = entries.map(({ subject, server, status, problem, rounds }) => ({
    id: subject.id,
    name: subject.name,
    note: server?.note ?? null,
    status,
    problem,
    rounds,
  }));
  return { part, subjects };
}

async function startEntry(
  entry: Entry,
  part: Part,
  client: StreamClient,
  settings: StreamSettings,
): Promise<void> {
  progress(`${part.title}: starting ${entry.subject.name}`);
  const { profileDir } = settings;
  await attempt(entry, async () => {
    entry.server = await entry.subject.start(
      profileDir === undefined ? undefined : join(profileDir, part.id),
    );
    const needed = part.openFiles ?? part.streams + OTHER_FILES;
    const limit = Math.min(openFilesLimitOf(entry.server.pid), client.openFilesLimit());
    if (limit < needed) {
      throw new Skipped(`${needed} open files are needed, this machine allows ${limit} (ulimit -n)`);
    }
    await warmUp(entry, part, client, settings.measureMs);
  });
}

async function warmUp(entry: Entry, part: Part, client: StreamClient, measureMs: number): Promise<void> {
  if (entry.server === null) return;
  if (part.perSecond !== null) {
    const rampMs = Math.max(WARM_UP_MS, (part.rampMs * WARM_UP_STREAMS) / part.streams);
    const shape = { streams: WARM_UP_STREAMS, rampMs, perSecond: 20, isGzip: part.isGzip };
    sound(await client.read(entry.server, paced(shape, WARM_UP_MS)));
    return;
  }
  for (const [messages, wantedMs] of [
    [() => FIRST_MESSAGES, WARM_UP_MS],
    [() => entry.fastMessages, measureMs],
  ] as const) {
    const round = sound(await client.read(entry.server, fast(messages())));
    entry.fastMessages = Math.max(FIRST_MESSAGES, Math.round((round.messagesPerSecond * wantedMs) / 1000));
  }
}

async function measureRound(
  entry: Entry,
  part: Part,
  client: StreamClient,
  measureMs: number,
): Promise<void> {
  if (entry.server === null) return;
  await quietEndOf(entry.server);
  const { perSecond } = part;
  const pressure = perSecond === null ? fast(entry.fastMessages) : paced({ ...part, perSecond }, measureMs);
  const round = sound(await client.read(entry.server, pressure));
  if (perSecond === null && round.messagesEver !== entry.fastMessages) {
    throw new Error(`${round.messagesEver} of ${entry.fastMessages} messages arrived`);
  }
  entry.rounds.push(round);
}

/** A stream of a known number of messages, as fast as they come. */
function fast(messages: number): StreamPressure {
  return {
    streams: 1,
    window: null,
    endWithinMs: MAX_FAST_MS,
    body: JSON.stringify({ n: messages }),
    isGzip: false,
  };
}

/** Streams that are all opened first, then go on until a little after the window. */
function paced(
  shape: Pick<Part, "streams" | "rampMs" | "isGzip"> & { readonly perSecond: number },
  measureMs: number,
): StreamPressure {
  const { streams, rampMs, isGzip, perSecond } = shape;
  const fromMs = rampMs + LEAD_IN_MS;
  const window = { fromMs, toMs: fromMs + measureMs };
  const start = (Date.now() + rampMs) / 1000;
  // One interval more: a generator whose next message would come too late has ended already.
  const until = (Date.now() + window.toMs + 1000 / perSecond + 300) / 1000;
  return {
    streams,
    window,
    endWithinMs: 1000 / perSecond + LAST_END_MS,
    body: JSON.stringify({ per_second: perSecond, start, until }),
    isGzip,
  };
}

function sound(round: StreamRound): StreamRound {
  const problem = streamProblemOf(round);
  if (problem !== null) throw new Error(problem);
  return round;
}

async function attempt(entry: Entry, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    entry.status = error instanceof Skipped ? "skipped" : entry.rounds.length > 0 ? "invalid" : "failed";
    entry.problem = (error as Error).message;
  }
}
