import type { LineBatch } from "../../model/line-batch.ts";
import { hasBatchEnded } from "../../model/line-batch.ts";
import { AppError } from "../../model/errors.ts";
import { isFinal, type Payload, type Run } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";
import { plainValue } from "../ended-run.ts";
import type { LargePayloads } from "../large-payloads.ts";
import { STREAM_TYPE } from "../response.ts";
import { allChunks, storedTranscript } from "../transcript.ts";
import type { PartReader } from "../transcript-parts.ts";
import type { BatchFeeder } from "./feeder.ts";
import { type Clock, pause } from "../../kit/clock.ts";

export type ResultParts = {
  readonly store: Pick<Store, "batchLines" | "lineBatches">;
  readonly steadyClock: Clock;
  readonly feeder: Pick<BatchFeeder, "changes">;
  readonly partReader: PartReader;
  readonly large: LargePayloads | null;
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
/** How often a batch is looked at again that may be in progress on another node. */
const LOOK_MS = 1_000;
/** An empty line keeps the connection of a reader that waits. */
const QUIET_MS = 15_000;
const EMPTY_LINE = Buffer.from("\n");
const NOT_KEPT = new AppError("payload_not_kept");

type PageLine = Awaited<ReturnType<Store["batchLines"]["page"]>>[number];
type StoredRun = { readonly run: Run; readonly payload: Payload };

/** The results of a batch as JSON Lines, as far as there are any; each piece is some whole lines. */
export async function* batchResults(
  parts: ResultParts,
  batch: Pick<LineBatch, "appNumber" | "id" | "number">,
  { order, after: first, isFollowing }: ResultQuery,
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
    for (const some of byBytes(lines)) yield await textOf(parts, batch.appNumber, some);
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

async function textOf(parts: ResultParts, appNumber: number, lines: readonly PageLine[]): Promise<Buffer> {
  const ids = lines.flatMap(({ runId }) => runId ?? []);
  const stored = await parts.store.batchLines.runs({ appNumber, ids });
  const byId = new Map(stored.map((found) => [found.run.id, found]));
  const pieces: Buffer[] = [];
  for (const line of lines) pieces.push(...(await lineOf(parts, line, byId.get(line.runId ?? ""))));
  return Buffer.concat(pieces);
}

async function lineOf(parts: ResultParts, line: PageLine, stored: StoredRun | undefined): Promise<Buffer[]> {
  const { label, line: index, runId, state } = line;
  const id = label === null ? "" : `"id":${label},`;
  const head = `{${id}"index":${index},"run_id":${JSON.stringify(runId)},"status":"${state}",`;
  const value = stored && (await valueOf(parts, stored));
  if (value) return [Buffer.from(`${head}"result":`), ...value, Buffer.from("}\n")];
  const { code, message } = errorOf(line, stored);
  return [Buffer.from(`${head}"error":${JSON.stringify({ code, message })}}\n`)];
}

function errorOf(line: PageLine, stored: StoredRun | undefined) {
  if (line.errorCode !== null) return { code: line.errorCode, message: line.errorMessage ?? "" };
  const { errorCode = null, errorMessage = null } = stored?.run ?? {};
  if (errorCode !== null) return { code: errorCode, message: errorMessage ?? "" };
  return NOT_KEPT;
}

/** What the run returned, or a list of what it yielded; null if there is nothing, or it is not stored any more. */
async function valueOf(parts: ResultParts, { run, payload }: StoredRun): Promise<Buffer[] | null> {
  if (payload.contentType === STREAM_TYPE && run.errorCode === null && isFinal(run.state)) {
    const pieces: Buffer[] = [];
    for await (const chunks of allChunks(storedTranscript(parts.partReader, run)))
      for (const { event, isText, bytes } of chunks)
        pieces.push(
          Buffer.from(event === 1 ? "[" : ","),
          isText ? Buffer.from(JSON.stringify(bytes.toString())) : Buffer.from(bytes),
        );
    return [...(pieces.length === 0 ? [Buffer.from("[")] : pieces), Buffer.from("]")];
  }
  const { resultBlob } = payload;
  const result = resultBlob ? ((await parts.large?.read(resultBlob)) ?? null) : payload.result;
  const value = plainValue(run, { ...payload, result });
  return value && [value];
}
