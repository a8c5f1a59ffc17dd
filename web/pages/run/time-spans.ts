import { isOver } from "../../api/runs.ts";
import type { Run, WebhookAttempt } from "../../api/runs.ts";

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
  /** How long the replica's `setup()` took; null if it has none, or if that is no longer known. */
  setupMs: number | null = null,
): Scale {
  const createdMs = Date.parse(run.createdAt);
  const endMs = run.completedAt === null ? Math.max(nowMs, createdMs) : Date.parse(run.completedAt);
  const startedMs = run.startedAt === null ? null : Date.parse(run.startedAt);
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
    if (setupMs !== null) {
      const setupFromMs = Math.max(createdMs, coldUntilMs - setupMs);
      spans.push(closed("setup()", "cold", setupFromMs, coldUntilMs, "The last part of the cold start"));
    }
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
    spans.push({ ...closed("Running", tone, startedMs, endMs), isOpen: !isOver(run) });
  }
  if (firstChunkMs !== null) {
    const atMs = Math.min(Math.max(firstChunkMs, startedMs ?? createdMs), endMs);
    spans.push(closed("First chunk", "mark", atMs, atMs));
  }
  if (isOver(run)) spans.push(closed(capital(run.status), "mark", endMs, endMs));
  return { fromMs: createdMs, toMs: Math.max(endMs, createdMs + 1), spans };
}

/** The attempts that ended before the run did. */
function failedAttempts(run: Run): TimeSpan[] {
  return (run.attempts ?? []).flatMap(({ number, startedAt, completedAt, error }) => {
    if (number === run.attempt || startedAt === null || completedAt === null) return [];
    return closed(`Attempt ${number}`, "bad", Date.parse(startedAt), Date.parse(completedAt), error?.message);
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
  const fromMs = Math.min(endMs, ...spans.map((span) => span.fromMs));
  return { fromMs, toMs: Math.max(fromMs + 1, ...spans.map((span) => span.toMs)), spans };
}

function closed(title: string, tone: SpanTone, fromMs: number, toMs: number, note?: string): TimeSpan {
  return { title, tone, fromMs, toMs: Math.max(fromMs, toMs), isOpen: false, ...(note && { note }) };
}

function capital(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}
