import { type EndedLine, hasBatchEnded, type LineBatch } from "../../model/line-batch.ts";
import { AppError } from "../../model/errors.ts";
import type { Run, RunState } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";
import { type Clock, pause } from "../../kit/clock.ts";
import type { BatchFeeder } from "./feeder.ts";
import { type LineValue, valueOf, type ValueParts, WHOLE_BYTES } from "./result-value.ts";

export type ResultParts = Omit<ValueParts, "store"> & {
  readonly store: Pick<Store, "batchLines" | "lineBatches" | "payloads">;
  readonly steadyClock: Clock;
  readonly feeder: Pick<BatchFeeder, "changes">;
};

export type ResultQuery = {
  readonly order: "input" | "finished";
  /** The index of the last line that the reader has, or with `finished` how many it has. */
  readonly after: number;
  /** Whether to go on until the batch has ended. */
  readonly isFollowing: boolean;
};

/** Lines whose results are read together, at most with so many bytes. */
const PAGE_LINES = 200;
const PAGE_BYTES = 2 * 1024 * 1024;
/** Of results, what is sent in one piece. */
const SENT_BYTES = 256 * 1024;
/** How often a batch is looked at again that may be in progress on another node. */
const LOOK_MS = 1_000;
/** An empty line keeps the connection of a reader that waits. */
const QUIET_MS = 15_000;
const EMPTY_LINE = Buffer.from("\n");
const NOT_KEPT = new AppError("payload_not_kept");

type PageLine = Awaited<ReturnType<Store["batchLines"]["page"]>>[number];

/** A line that has ended, without its value. */
export type LineResult = Pick<EndedLine, "label" | "runId" | "state"> & {
  /** The line's, from 0. */
  readonly index: number;
  /** Of its run's answer; null if there is none. */
  readonly statusCode: number | null;
  /** The value is a string that stands for bytes. */
  readonly isBase64: boolean;
  /** Null if there is a value. */
  readonly error: { readonly code: string; readonly message: string } | null;
};

/** How lines are written. */
export type ResultForm = {
  /** Whether lines that ended so are told. */
  readonly wants: (state: RunState) => boolean;
  /** What comes before and after the value. */
  readonly told: (line: LineResult) => readonly [before: string, after: string];
};

/** The results of a batch as JSON Lines, as far as there are any. */
export async function* batchResults(
  parts: ResultParts,
  batch: Pick<LineBatch, "appNumber" | "id" | "number">,
  { order, after: first, isFollowing }: ResultQuery,
  form: ResultForm,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const { store, steadyClock } = parts;
  let after = first;
  let toldAt = steadyClock.monotonic();
  while (!signal.aborted) {
    // Read before the lines: a batch that has ended has no more of them.
    const current = isFollowing ? await store.lineBatches.find(batch) : null;
    const page = await store.batchLines.page({ number: batch.number, order, after, limit: PAGE_LINES });
    const lines = inTurn(page, after, isFollowing && order === "input");
    const told = lines.filter(({ state }) => form.wants(state));
    for (const some of byBytes(told)) yield* textOf(parts, batch.appNumber, some, form);
    const last = lines.at(-1);
    if (last) {
      after = order === "input" ? last.line : last.place;
      toldAt = steadyClock.monotonic();
      continue;
    }
    if (!current || hasBatchEnded(current.state)) return;
    await changed(parts, signal);
    if (steadyClock.monotonic() - toldAt < QUIET_MS) continue;
    toldAt = steadyClock.monotonic();
    yield EMPTY_LINE;
  }
}

/** The lines up to the first one that has not ended, where they are wanted without gaps. */
function inTurn(page: readonly PageLine[], after: number, isStrict: boolean): readonly PageLine[] {
  if (!isStrict) return page;
  const gap = page.findIndex(({ line }, i) => line !== after + 1 + i);
  return gap === -1 ? page : page.slice(0, gap);
}

function* byBytes(lines: readonly PageLine[]): Generator<readonly PageLine[]> {
  let start = 0;
  let bytes = 0;
  for (const [i, line] of lines.entries()) {
    if (i > start && bytes + line.bytes > PAGE_BYTES) {
      yield lines.slice(start, i);
      start = i;
      bytes = 0;
    }
    bytes += line.bytes;
  }
  if (start < lines.length) yield lines.slice(start);
}

async function changed({ feeder, steadyClock }: ResultParts, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  await Promise.race([feeder.changes.wait(either), pause(steadyClock, LOOK_MS, either)]);
  over.abort();
}

/** The lines as they are told, in pieces of bounded size. */
async function* textOf(
  parts: ResultParts,
  appNumber: number,
  lines: readonly PageLine[],
  form: ResultForm,
): AsyncGenerator<Buffer> {
  const ids = lines.flatMap(({ runId }) => runId ?? []);
  const query = { appNumber, ids, side: "result", maxBytes: WHOLE_BYTES } as const;
  const byId = new Map((await parts.store.batchLines.runs(query)).map((found) => [found.run.id, found]));
  let pieces: Buffer[] = [];
  let size = 0;
  for (const line of lines) {
    const stored = byId.get(line.runId ?? "");
    const value = (stored && (await valueOf(parts, { ...stored, bytes: line.bytes }))) ?? null;
    const [before, after] = form.told(resultOf(line, stored?.run, value));
    pieces.push(Buffer.from(before));
    for await (const piece of value?.pieces ?? []) {
      pieces.push(piece);
      size += piece.length;
      if (size < SENT_BYTES) continue;
      yield Buffer.concat(pieces);
      [pieces, size] = [[], 0];
    }
    pieces.push(Buffer.from(after));
  }
  if (pieces.length > 0) yield Buffer.concat(pieces);
}

function resultOf(line: PageLine, run: Run | undefined, value: LineValue | null): LineResult {
  const { label, line: index, runId, state } = line;
  const told = { label, index, runId, state, statusCode: run?.statusCode ?? null };
  return { ...told, isBase64: value?.isBase64 ?? false, error: value ? null : errorOf(line, run) };
}

function errorOf({ errorCode, errorMessage }: PageLine, run: Run | undefined): LineResult["error"] {
  if (errorCode !== null) return { code: errorCode, message: errorMessage ?? "" };
  if (run && run.errorCode !== null) return { code: run.errorCode, message: run.errorMessage ?? "" };
  return { code: NOT_KEPT.code, message: NOT_KEPT.message };
}

/** A line as Millrace's own clients get it. */
export const OWN_FORM: ResultForm = {
  wants: () => true,
  told: ({ label, index, runId, state, isBase64, error }) => {
    const id = label === null ? "" : `"id":${label},`;
    const head = `{${id}"index":${index},"run_id":${JSON.stringify(runId)},"status":"${state}",`;
    if (error) return [`${head}"error":${JSON.stringify(error)}}\n`, ""];
    return [`${head}${isBase64 ? '"encoding":"base64",' : ""}"result":`, "}\n"];
  },
};
