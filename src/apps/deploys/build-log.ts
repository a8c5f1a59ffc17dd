import { Condition } from "../../kit/concurrency.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { WriteBehind } from "../../kit/write-behind.ts";
import type { BuildLine, BuildStage } from "../../model/build.ts";
import { logIdAt, type LogStream } from "../../model/log-line.ts";
import type { Store } from "../../store/store.ts";
import { fitText } from "../logs/line-buffer.ts";

export type BuildLogParts = { readonly store: Store; readonly clock: Clock; readonly log: Log };

/** A line is written to the disk at most this long after it was added. */
const FLUSH_MS = 100;
const RETRY_MS = 1_000;
const BATCH_LINES = 200;
/** Of one build: all of it is in memory until the build ends. */
const MAX_LINES = 20_000;
const MAX_CHARS = 4 * 1024 * 1024;
/** A follower gets so many at once. */
const PIECE_LINES = 256;
const NS_PER_MS = 1_000_000n;
const TAG_CHARS = 14;

/** A line's id: it sorts by time, holds the time as `timestampOf` tells it, and no other line has it. */
export function buildLineId(buildId: string, { createdAt, number }: BuildLine): string {
  // Numbers stay below a million: the nanoseconds that they add stay within the line's millisecond.
  const nanoseconds = BigInt(createdAt) * NS_PER_MS + BigInt(number);
  return logIdAt(nanoseconds, buildId.replaceAll("-", "").slice(-TAG_CHARS));
}

/** The log of a build that has not ended; lines are written behind. */
export class BuildLog {
  readonly buildId: string;
  readonly #parts: BuildLogParts;
  readonly #lines: BuildLine[];
  readonly #condition = new Condition();
  #storedCount: number;
  #chars = 0;
  #leftOut = 0;
  #hasEnded = false;
  readonly #behind: WriteBehind;

  /** Continues after the lines that are stored already. */
  constructor(buildId: string, stored: readonly BuildLine[], parts: BuildLogParts) {
    this.buildId = buildId;
    this.#parts = parts;
    this.#lines = [...stored];
    this.#storedCount = stored.length;
    this.#behind = new WriteBehind({
      clock: parts.clock,
      delayMs: FLUSH_MS,
      retryMs: RETRY_MS,
      hasWaiting: () => this.#storedCount < this.#lines.length,
      write: () => this.#write(),
      onFailure: (err) => parts.log.error({ err, buildId }, "could not store a build's log lines"),
    });
  }

  get lines(): readonly BuildLine[] {
    return this.#lines;
  }

  say(stage: BuildStage, text: string, stream: LogStream = "stdout"): void {
    for (const line of text.trimEnd().split(/\r?\n/)) {
      const isFull = this.#lines.length >= MAX_LINES || this.#chars > MAX_CHARS;
      if (isFull) this.#leftOut += 1;
      else this.#push(stage, fitText(line), stream);
    }
  }

  /** Resolves when every line is stored, or could not be. */
  async flush(): Promise<void> {
    if (this.#leftOut > 0) {
      const stage = this.#lines.at(-1)?.stage ?? "build";
      this.#push(stage, `[millrace] ${this.#leftOut} more lines are omitted: the log is full`, "stderr");
      this.#leftOut = 0;
    }
    await this.#behind.flush();
  }

  /** No more lines come: followers are at the end. */
  end(): void {
    this.#behind.cancel();
    this.#hasEnded = true;
    this.#condition.notify();
  }

  /** Its lines from the first one on as they come, until it ends or the signal says so. */
  async *follow(signal: AbortSignal): AsyncGenerator<readonly BuildLine[]> {
    let index = 0;
    while (!signal.aborted) {
      const piece = this.#lines.slice(index, index + PIECE_LINES);
      index += piece.length;
      if (piece.length > 0) yield piece;
      else if (this.#hasEnded) return;
      else await this.#condition.wait(signal);
    }
  }

  #push(stage: BuildStage, text: string, stream: LogStream): void {
    // Times never go back, whatever the clock does: with the numbers they give each line its place.
    const createdAt = Math.max(this.#parts.clock.now(), this.#lines.at(-1)?.createdAt ?? 0);
    this.#lines.push({ number: this.#lines.length + 1, createdAt, stream, stage, text });
    this.#chars += text.length;
    this.#behind.note();
    if (this.#condition.isAwaited) this.#condition.notify();
  }

  async #write(): Promise<void> {
    const { buildId } = this;
    while (this.#storedCount < this.#lines.length) {
      const lines = this.#lines.slice(this.#storedCount, this.#storedCount + BATCH_LINES);
      await this.#parts.store.buildLines.append({ buildId, lines });
      this.#storedCount += lines.length;
    }
  }
}

/** The logs of all builds: of those under way in memory, of the others in the store. */
export class BuildLogs {
  readonly #parts: BuildLogParts;
  readonly #open = new Map<string, BuildLog>();

  constructor(parts: BuildLogParts) {
    this.#parts = parts;
  }

  /** The log of a build that has not ended. */
  async open(buildId: string): Promise<BuildLog> {
    const log = new BuildLog(buildId, await this.read(buildId), this.#parts);
    this.#open.set(buildId, log);
    return log;
  }

  /** Ends a log whose lines are stored. */
  close(log: BuildLog): void {
    log.end();
    this.#open.delete(log.buildId);
  }

  async read(buildId: string): Promise<readonly BuildLine[]> {
    const open = this.#open.get(buildId);
    if (open) return open.lines;
    const lines: BuildLine[] = [];
    for await (const piece of this.#stored(buildId)) lines.push(...piece);
    return lines;
  }

  /** The lines after that id, or all, as they come; ends when the build has, or at the signal. */
  async *follow(
    buildId: string,
    after: string | null,
    signal: AbortSignal,
  ): AsyncGenerator<readonly BuildLine[]> {
    const open = this.#open.get(buildId);
    for await (const piece of open ? open.follow(signal) : this.#stored(buildId)) {
      if (signal.aborted) return;
      const wanted = after === null ? piece : piece.filter((line) => buildLineId(buildId, line) > after);
      if (wanted.length > 0) yield wanted;
    }
  }

  async *#stored(buildId: string): AsyncGenerator<readonly BuildLine[]> {
    for (let after = 0; ;) {
      const lines = await this.#parts.store.buildLines.list({ buildId, after, limit: PIECE_LINES });
      if (lines.length > 0) yield lines;
      if (lines.length < PIECE_LINES) return;
      after = lines.at(-1)?.number ?? after;
    }
  }
}
