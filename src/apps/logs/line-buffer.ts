import type { LogLine } from "../../model/log-line.ts";

/** What may wait for the database: about 64 MB of memory. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;
/** What is kept of what is stored, for tails that follow closely. */
const MAX_RECENT_BYTES = 4 * 1024 * 1024;
const LINE_BYTES = 200;

/** Lines read from memory: those that were chosen, and how far they were looked through. */
type BufferPage = { readonly lines: LogLine[]; readonly reached: string };

/** The latest lines of all apps, in the order of their ids: first stored ones, then those that wait to be. */
export class LineBuffer {
  #lines: LogLine[] = [];
  #storedCount = 0;
  #storedBytes = 0;
  #waitingBytes = 0;
  #completeAfter: string;

  /** No line of this buffer's will have an id up to `start`. */
  constructor(start: string) {
    this.#completeAfter = start;
  }

  /** Every line after this one is here, and every one before it is stored. */
  get completeAfter(): string {
    return this.#completeAfter;
  }

  /** Takes no more until something is stored. */
  get isFull(): boolean {
    return this.#waitingBytes >= MAX_WAITING_BYTES;
  }

  get waitingCount(): number {
    return this.#lines.length - this.#storedCount;
  }

  /** The latest line, or the position before the first. */
  get last(): string {
    return this.#lines.at(-1)?.id ?? this.#completeAfter;
  }

  /** Adds a line; its id is above all others. */
  add(line: LogLine): void {
    this.#lines.push(line);
    this.#waitingBytes += sizeOf(line);
  }

  waiting(maxLines: number, maxBytes: number): LogLine[] {
    let bytes = 0;
    let end = this.#storedCount;
    const last = Math.min(this.#lines.length, end + maxLines);
    while (end < last && bytes < maxBytes) bytes += sizeOf(this.#lines[end++]!);
    return this.#lines.slice(this.#storedCount, end);
  }

  /** The first `count` of those that wait are stored. */
  markStored(count: number): void {
    for (const line of this.#lines.slice(this.#storedCount, this.#storedCount + count)) {
      this.#waitingBytes -= sizeOf(line);
      this.#storedBytes += sizeOf(line);
    }
    this.#storedCount += count;
    let drop = 0;
    while (drop < this.#storedCount && this.#storedBytes > MAX_RECENT_BYTES)
      this.#storedBytes -= sizeOf(this.#lines[drop++]!);
    if (drop === 0) return;
    this.#completeAfter = this.#lines[drop - 1]!.id;
    this.#lines = this.#lines.slice(drop);
    this.#storedCount -= drop;
  }

  /** Gives up what waits; returns how many lines that were. */
  abandon(): number {
    const count = this.waitingCount;
    this.#lines = this.#lines.slice(0, this.#storedCount);
    this.#waitingBytes = 0;
    return count;
  }

  /** Chosen lines after that position; null when some of them may be in the store only. */
  after(position: string, chooses: (line: LogLine) => boolean, limit: number): BufferPage | null {
    if (position < this.#completeAfter) return null;
    const lines: LogLine[] = [];
    for (let i = this.#firstAfter(position); i < this.#lines.length; i++) {
      const line = this.#lines[i]!;
      if (!chooses(line)) continue;
      lines.push(line);
      if (lines.length === limit) return { lines, reached: line.id };
    }
    return { lines, reached: this.last > position ? this.last : position };
  }

  #firstAfter(position: string): number {
    let [low, high] = [0, this.#lines.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#lines[middle]!.id > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

function sizeOf({ text }: LogLine): number {
  return text.length + LINE_BYTES;
}

const MAX_BYTES = 64 * 1024;

/** A line's text as it can be kept: at most 64 KiB, with a mark where it was cut, and without NUL. */
export function fitText(text: string): string {
  // No character takes more than three bytes for each unit of its length.
  const isShort = text.length * 3 <= MAX_BYTES || Buffer.byteLength(text) <= MAX_BYTES;
  return clean(isShort ? text : cut(text));
}

function cut(text: string): string {
  const bytes = Buffer.from(text);
  let end = MAX_BYTES;
  // Not within a character: its bytes after the first begin with 10.
  while ((bytes[end]! & 0xc0) === 0x80) end -= 1;
  return `${bytes.toString("utf8", 0, end)} [millrace: cut, ${bytes.length - end} more bytes]`;
}

/** Postgres refuses a NUL in text. Runs of them become one sign: a line of nothing else took 10 ms one by one. */
function clean(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.includes("\0") ? text.replaceAll(/\0+/g, "\uFFFD") : text;
}
