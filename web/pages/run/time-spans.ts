import type { StartPart } from "../../../src/shapes/apps.ts";
import { UNFINISHED } from "../../../src/model/run.ts";
import type { AttemptRecord as WebhookAttempt } from "../../../src/shapes/deliveries.ts";
import type { RunRecord as Run } from "../../../src/shapes/runs.ts";
import { span } from "../../parts/format.ts";

export type SpanTone = "wait" | "cold" | "run" | "good" | "bad" | "mark";

/** One thing that took time, or happened at one. */
export type TimeSpan = {
  readonly title: string;
  readonly tone: SpanTone;
  readonly fromMs: number;
  readonly toMs: number;
  /** It goes on. */
  readonly isOpen: boolean;
  readonly note?: string;
};

/** Spans on one scale. */
export type Scale = { readonly fromMs: number; readonly toMs: number; readonly spans: readonly TimeSpan[] };

/** What became of a run over time, from its acceptance to its end or to now. */
export function runScale(
  run: Run,
  firstChunkMs: number | null,
  nowMs: number,
  /** How the replica's start went; empty if that is no longer known. */
  starts: readonly StartPart[] = [],
): Scale {
  const createdMs = Date.parse(run.createdAt);
  const endMs = endOf(run, createdMs, nowMs);
  const startedMs = startOf(run, createdMs);
  const readyMs = run.containerStartedAt === null ? null : Date.parse(run.containerStartedAt);
  const spans: TimeSpan[] = [];
  const failed = failedAttempts(run);
  const [first] = failed;
  const last = failed.at(-1);
  // After a failed attempt, the replica is that of a later one, and no longer the one that the run first waited for.
  const hasWaited = readyMs !== null && !first && isCold(run);
  const coldUntilMs = hasWaited ? Math.min(readyMs, startedMs ?? readyMs) : null;
  if (coldUntilMs !== null) {
    spans.push(closed("Cold start", "cold", createdMs, coldUntilMs, "Waiting until a replica was ready"));
    spans.push(...startSpans(starts, createdMs, coldUntilMs));
  }
  const queuedFromMs = coldUntilMs ?? createdMs;
  if (first) spans.push(closed("Queued", "wait", queuedFromMs, first.fromMs));
  spans.push(...failed);
  spans.push({
    ...closed(
      last ? "Waiting" : "Queued",
      "wait",
      last?.toMs ?? queuedFromMs,
      startedMs ?? endMs,
      batchNote(run),
    ),
    isOpen: startedMs === null && !isOver(run),
  });
  if (startedMs !== null) {
    const tone = run.status === "failure" || run.status === "failed" ? "bad" : isOver(run) ? "good" : "run";
    const ranUntilMs =
      run.runtimeMs === null || !isOver(run) ? endMs : Math.min(endMs, startedMs + run.runtimeMs);
    spans.push({ ...closed("Running", tone, startedMs, ranUntilMs), isOpen: !isOver(run) });
    if (endMs - ranUntilMs >= LEAST_MS) spans.push(closed("Hand-over", "wait", ranUntilMs, endMs, HAND_OVER));
  }
  if (firstChunkMs !== null) {
    const atMs = Math.min(Math.max(firstChunkMs, startedMs ?? createdMs), endMs);
    spans.push(closed("First chunk", "mark", atMs, atMs));
  }
  if (isOver(run)) spans.push(closed(capital(run.status), "mark", endMs, endMs));
  return { fromMs: createdMs, toMs: Math.max(endMs, createdMs + 1), spans };
}

/** Less is not worth a line. */
const LEAST_MS = 0.05;
const HAND_OVER = "The call on its way to the replica, and its answer on the way back";

/** To a microsecond where the service has measured it so. */
function endOf({ completedAt, responseTimeMs, attempt }: Run, createdMs: number, nowMs: number): number {
  if (completedAt === null) return Math.max(nowMs, createdMs);
  return responseTimeMs !== null && attempt === 1 ? createdMs + responseTimeMs : Date.parse(completedAt);
}

function startOf({ startedAt, queueTimeMs, attempt }: Run, createdMs: number): number | null {
  if (startedAt === null) return null;
  return queueTimeMs !== null && attempt === 1 ? createdMs + queueTimeMs : Date.parse(startedAt);
}

const START_TITLES: Readonly<Record<StartPart["phase"], string>> = {
  schedule: "… machine",
  pull: "… image",
  import: "… import",
  setup: "… setup()",
};

/** The parts of a cold start, of which the last one ends with it; what was over before the run came is left out. */
function startSpans(starts: readonly StartPart[], fromMs: number, toMs: number): TimeSpan[] {
  const spans: TimeSpan[] = [];
  let endMs = toMs;
  for (const { phase, ms } of starts.toReversed()) {
    if (endMs <= fromMs) break;
    const beginMs = Math.max(fromMs, endMs - ms);
    spans.unshift(closed(START_TITLES[phase], "cold", beginMs, endMs));
    endMs = beginMs;
  }
  return spans;
}

/** The attempts that ended before the run did. */
function failedAttempts(run: Run): TimeSpan[] {
  let last = run.error?.message;
  return (run.attempts ?? []).flatMap(({ number, startedAt, completedAt, runtimeMs, error }) => {
    if (number === run.attempt || startedAt === null || completedAt === null) return [];
    // The same error again need not be read again.
    const message = error?.message === last ? "The same error" : error?.message;
    last = error?.message ?? last;
    const note = [runtimeMs !== null && `Ran for ${span(runtimeMs)}`, message].filter(Boolean).join(". ");
    return closed(`Attempt ${number}`, "bad", Date.parse(startedAt), Date.parse(completedAt), note);
  });
}

/** Whether the replica became ready after the run had come: it was started for it. */
export function isCold({ createdAt, containerStartedAt }: Run): boolean {
  return containerStartedAt !== null && Date.parse(containerStartedAt) > Date.parse(createdAt);
}

/** With how many calls it left the queue, and why then. */
function batchNote({ batchSize: size, batchReason: reason }: Run): string | undefined {
  if (size === undefined) return undefined;
  return `Left in a batch of ${size}${reason === undefined ? "" : `: ${reason}`}`;
}

/** The attempts to deliver a response, on a scale of their own: they may go on for days. */
export function webhookScale(run: Run, attempts: readonly WebhookAttempt[]): Scale | null {
  if (attempts.length === 0) return null;
  const spans = attempts.map(({ number, startedAt, durationMs, status, error }): TimeSpan => {
    const fromMs = Date.parse(startedAt);
    const isGood = status !== null && status >= 200 && status < 300;
    const note = status === null ? (error ?? "no answer") : `answered ${status}`;
    return closed(`Attempt ${number}`, isGood ? "good" : "bad", fromMs, fromMs + durationMs, note);
  });
  const endMs = run.completedAt === null ? Date.parse(run.createdAt) : Date.parse(run.completedAt);
  const fromMs = Math.min(endMs, ...spans.map((each) => each.fromMs));
  return { fromMs, toMs: Math.max(fromMs + 1, ...spans.map((each) => each.toMs)), spans };
}

function closed(title: string, tone: SpanTone, fromMs: number, toMs: number, note?: string): TimeSpan {
  return { title, tone, fromMs, toMs: Math.max(fromMs, toMs), isOpen: false, ...(note && { note }) };
}

function isOver({ status }: Run): boolean {
  return !UNFINISHED.some((state) => state === status);
}

function capital(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}
