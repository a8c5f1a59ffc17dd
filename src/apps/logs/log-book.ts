import type { Clock, Timer } from "../../kit/clock.ts";
import { FIRST_TAG, LAST_TAG, logIdAt, type LogLine, nanosecondsOf } from "../../model/log-line.ts";
import { isSearch, type LogScan } from "../../store/apps/logs.ts";
import type { Store } from "../../store/store.ts";
import { randomBytes } from "node:crypto";
import { Condition } from "../../kit/concurrency.ts";
import type { WriteBehind } from "../../kit/write-behind.ts";
import type { Log } from "../../kit/log.ts";
import { AppError } from "../../model/errors.ts";
import { RUN_ID } from "../../model/names.ts";
import type { AppLogLine } from "../versions/open-version.ts";
import { type Flood, FloodGate, type FloodLimits } from "./flood-gate.ts";
import { fitText, LineBuffer } from "./line-buffer.ts";
import { lineWriter, LogShare } from "./line-writer.ts";

/** Replicas whose last line number is remembered: far more than live at once. */
const MAX_REPLICAS = 10_000;

export type LogQuery = Omit<LogScan, "limit" | "scanLimit"> & { readonly pageSize: number };

/** Lines in the query's direction; the next page begins at `reached`, which is null when there is none. */
type LogQueryPage = { readonly lines: readonly LogLine[]; readonly reached: string | null };

/** How many lines one step looks at; each step is a turn of the database's reading thread. */
const SCAN = 2_000;
/** A page that is still not full after this long is given as it is. */
const BUDGET_MS = 100;

/** Reads a page in small steps; a rare match costs several short pages, not one that takes very long. */
async function readPage(store: Store, query: LogQuery, clock: Clock): Promise<LogQueryPage> {
  const { pageSize, ...scan } = query;
  const isChosen = isSearch(scan);
  const deadline = clock.monotonic() + BUDGET_MS;
  const lines: LogLine[] = [];
  let position: string | null = null;
  do {
    // One more than asked for shows whether there is more.
    const limit = pageSize + 1 - lines.length;
    const from = position === null ? {} : { [scan.direction === "forward" ? "after" : "before"]: position };
    const scanLimit = isChosen ? Math.max(SCAN, limit) : limit;
    const found = await store.logs.scan({ ...scan, ...from, limit, scanLimit });
    lines.push(...found.lines);
    position = found.reached;
  } while (position !== null && lines.length <= pageSize && clock.monotonic() < deadline);
  if (lines.length <= pageSize) return { lines, reached: position };
  const page = lines.slice(0, pageSize);
  return { lines: page, reached: page.at(-1)!.id };
}

export type LogBookParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** What lines may take up; without it, whatever they do. */
  readonly share?: LogShare;
  /** For each run, in place of the usual ones. */
  readonly runLimits?: FloodLimits;
};

/** Which lines of an app a tail wants, and after which one; without that, those that are yet to come. */
export type TailQuery = Pick<LogScan, "appNumber" | "runId" | "replicaId" | "after">;

const NO_LIMITS = { maxBytes: Number.POSITIVE_INFINITY, reserve: { isNear: false, shortage: null } };
const SETTLE_MS = 1_000;
const STOP_PATIENCE_MS = 5_000;
const NS_PER_MS = 1_000_000n;
/** A line that is further ahead was stamped by a wrong clock: it is not waited for. */
const MAX_AHEAD_NS = 3_600_000n * NS_PER_MS;
/** A tail takes so many lines at once, and looks at so many where it has to ask the store. */
const TAIL_LINES = 64;
const TAIL_SCAN = 2_000;

const RUN_LIMITS: FloodLimits = { linesPerSecond: 1_000, bytesPerSecond: 1024 * 1024, burstSeconds: 5 };
/** Of all its runs: one app's flood must not fill the memory that others' lines wait in. */
const APP_LIMITS: FloodLimits = { linesPerSecond: 10_000, bytesPerSecond: 10 * 1024 * 1024, burstSeconds: 2 };

type Gate = ReturnType<typeof gateOf>;

/** What apps print, to be read again or followed. Adding never waits; what is too much is left out, with a note. */
export class LogBook {
  readonly #parts: LogBookParts;
  readonly #gates: readonly Gate[];
  readonly #buffer: LineBuffer;
  readonly #writer: WriteBehind;
  /** The number of each replica's last line, by app and replica. */
  readonly #lastNumbers = new Map<string, number>();
  readonly #share: LogShare;
  /** Lines of each app for which there was no room, and why. */
  readonly #missing = new Map<number, { first: AppLogLine; lineCount: number; why: string }>();
  readonly #condition = new Condition();
  readonly #stopping = new AbortController();
  readonly #tails = new Set<{ readonly appNumber: number; readonly moving: AbortController }>();
  readonly #tag = randomBytes(7).toString("hex");
  readonly #settling: Timer;
  #lastNs: bigint;

  private constructor(parts: LogBookParts, startNs: bigint) {
    this.#parts = parts;
    this.#lastNs = startNs;
    this.#gates = [
      gateOf("a run", (line) => line.runId ?? line.replicaId, parts.runLimits ?? RUN_LIMITS),
      gateOf("an app", () => "", APP_LIMITS),
    ];
    this.#buffer = new LineBuffer(logIdAt(startNs, LAST_TAG));
    this.#share = parts.share ?? new LogShare({ ...parts, ...NO_LIMITS });
    const onStored = (): void => this.#tellMissing();
    this.#writer = lineWriter({ ...parts, share: this.#share, buffer: this.#buffer, onStored });
    this.#settling = parts.clock.every(SETTLE_MS, () => this.#settle());
  }

  /** Opens the book after the last line of the one before. */
  static async open(parts: LogBookParts): Promise<LogBook> {
    const nowNs = BigInt(parts.clock.now()) * NS_PER_MS;
    const last = await parts.store.logs.last();
    const lastNs = last === null ? 0n : nanosecondsOf(last);
    return new LogBook(parts, lastNs > nowNs && lastNs < nowNs + MAX_AHEAD_NS ? lastNs : nowNs);
  }

  add(line: AppLogLine): void {
    const now = this.#parts.clock.monotonic();
    for (const gate of this.#gates) {
      const from = { owner: String(line.appNumber), source: gate.sourceOf(line) };
      const { passes, after } = gate.floods.pass(from, line, line.text.length, now);
      if (after) this.#tellFlood(after, gate);
      if (!passes) return;
    }
    this.#append(line, fitText(line.text));
  }

  /** A page of an app's log; what was printed before the call is in it. */
  async query(query: LogQuery): Promise<LogQueryPage> {
    await this.#writer.flush();
    return await readPage(this.#parts.store, query, this.#parts.clock);
  }

  /** An app's lines as they come, a few at a time, none twice and none left out; ends at the signal. */
  tail(query: TailQuery, signal: AbortSignal): AsyncGenerator<readonly LogLine[]> {
    // Its position is taken now, not when it is first read.
    return this.#follow(query, query.after ?? this.#buffer.last, signal);
  }

  /** Another node prints the app's lines from now on: its tails end with `app_moved`, and continue there. */
  endTails(appNumber: number): void {
    for (const tail of this.#tails) if (tail.appNumber === appNumber) tail.moving.abort();
  }

  /** Stores what waits, and ends the tails. What processes print that outlive the service is not kept. */
  async stop(): Promise<void> {
    this.#settling.cancel();
    for (const gate of this.#gates) for (const flood of gate.floods.end()) this.#tellFlood(flood, gate);
    await this.#writer.settle(STOP_PATIENCE_MS, () => {
      const lost = this.#buffer.abandon();
      this.#parts.log.error({ lost }, "could not store log lines of apps; they are lost");
    });
    this.#stopping.abort();
  }

  #append(line: AppLogLine, text: string): void {
    // The store may be closed by now.
    if (this.#stopping.signal.aborted) return;
    const isShort = this.#share.shortage !== null;
    if (isShort || this.#buffer.isFull) {
      const why = isShort ? "the disk was nearly full" : "they could not be stored";
      const missing = this.#missing.get(line.appNumber) ?? { first: line, lineCount: 0, why };
      missing.lineCount += 1;
      this.#missing.set(line.appNumber, missing);
      return;
    }
    const { appNumber, replicaId, stream, runId } = line;
    this.#buffer.add({
      id: this.#nextId(),
      appNumber,
      // The tag came from the app's own output: it may be no run's id.
      runId: runId !== null && RUN_ID.test(runId) ? runId : null,
      replicaId,
      lineNumber: this.#nextNumber(`${appNumber}/${replicaId}`),
      stream,
      text,
    });
    this.#writer.note();
    if (this.#condition.isAwaited) this.#condition.notify();
  }

  /** A time of its own for each line, above all before it. */
  #nextId(): string {
    const nowNs = BigInt(this.#parts.clock.now()) * NS_PER_MS;
    this.#lastNs = nowNs > this.#lastNs ? nowNs : this.#lastNs + 1n;
    return logIdAt(this.#lastNs, this.#tag);
  }

  /** Counts each replica's lines from 1. */
  #nextNumber(replica: string): number {
    const number = (this.#lastNumbers.get(replica) ?? 0) + 1;
    // The one that printed least recently comes first.
    this.#lastNumbers.delete(replica);
    this.#lastNumbers.set(replica, number);
    if (this.#lastNumbers.size > MAX_REPLICAS)
      this.#lastNumbers.delete(this.#lastNumbers.keys().next().value ?? "");
    return number;
  }

  async *#follow(query: TailQuery, from: string, signal: AbortSignal): AsyncGenerator<readonly LogLine[]> {
    const tail = { appNumber: query.appNumber, moving: new AbortController() };
    this.#tails.add(tail);
    const ends = AbortSignal.any([signal, this.#stopping.signal, tail.moving.signal]);
    try {
      yield* this.#linesAfter(query, from, ends);
    } finally {
      this.#tails.delete(tail);
    }
    if (tail.moving.signal.aborted) throw new AppError("app_moved");
  }

  async *#linesAfter(query: TailQuery, from: string, ends: AbortSignal): AsyncGenerator<readonly LogLine[]> {
    const chooses = (line: LogLine): boolean =>
      line.appNumber === query.appNumber &&
      (query.runId === undefined || line.runId === query.runId) &&
      (query.replicaId === undefined || line.replicaId === query.replicaId);
    let position = from;
    while (!ends.aborted) {
      const inMemory = this.#buffer.after(position, chooses, TAIL_LINES);
      const { lines, reached } = inMemory ?? (await this.#tailStored(query, position));
      position = reached;
      if (lines.length > 0) yield lines;
      else if (inMemory) await this.#condition.wait(ends);
    }
  }

  /** Up to where memory begins. */
  async #tailStored(query: TailQuery, position: string) {
    const edge = this.#buffer.completeAfter;
    const { lines, reached } = await this.#parts.store.logs.scan({
      ...query,
      direction: "forward",
      after: position,
      before: logIdAt(nanosecondsOf(edge) + 1n, FIRST_TAG),
      limit: TAIL_LINES,
      scanLimit: TAIL_SCAN,
    });
    return { lines, reached: reached ?? edge };
  }

  #settle(): void {
    const now = this.#parts.clock.monotonic();
    this.#tellMissing();
    for (const gate of this.#gates) for (const flood of gate.floods.settle(now)) this.#tellFlood(flood, gate);
  }

  #tellFlood({ first, lineCount }: Flood<AppLogLine>, { who, limits }: Gate): void {
    const lines = lineCount === 1 ? "1 line was" : `${lineCount} lines were`;
    const may = `${who} may print at most ${limits.linesPerSecond} lines and ${limits.bytesPerSecond} bytes a second`;
    this.#append(first, `[millrace] ${lines} omitted here: ${may}`);
  }

  #tellMissing(): void {
    if (this.#missing.size === 0 || this.#buffer.isFull || this.#share.shortage !== null) return;
    const missing = [...this.#missing.values()];
    this.#missing.clear();
    for (const { first, lineCount, why } of missing) {
      const { projectId, appName } = first;
      this.#parts.log.error({ projectId, appName, lineCount }, "dropped log lines of an app");
      const lines = lineCount === 1 ? "1 line is" : `${lineCount} lines are`;
      const text = `[millrace] ${lines} missing here: ${why}`;
      this.#append({ ...first, runId: null }, text);
    }
  }
}

/** Limits for each source, which are for `who`. */
function gateOf(who: string, sourceOf: (line: AppLogLine) => string, limits: FloodLimits) {
  return { who, limits, sourceOf, floods: new FloodGate<AppLogLine>(limits) };
}
