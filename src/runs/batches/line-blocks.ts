import { hash } from "node:crypto";
import { GrowingBytes } from "../../kit/bytes.ts";
import { LineCutter } from "../../kit/line-cutter.ts";
import { TOO_LONG } from "./line.ts";

/** What one row holds of a batch, unless a single line is larger. One commit of it takes a few milliseconds. */
export const BLOCK_BYTES = 1024 * 1024;
export const BLOCK_LINES = 2_000;
const RETURN = 0x0d;
const SPACE = 0x20;
const NEWLINE = Buffer.from("\n");
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Lines joined by newlines, and the digest of that. */
export type Lines = { readonly lineCount: number; readonly bytes: Buffer; readonly digest: Buffer };

/**
 * Cuts an upload into blocks of lines. Empty lines are left out, and of a line that is longer than `maxLineBytes` only a
 * mark is kept.
 */
export class LineBlocks {
  readonly #maxLineBytes: number;
  readonly #cutter: LineCutter;
  readonly #bytes = new GrowingBytes();
  #lineCount = 0;
  /** The beginning of the line was too long already. */
  #isTooLong = false;
  #isFirst = true;
  #ready: Lines[] = [];
  /** The next block ends after so many lines, whatever their size; null: by size. */
  wantedLines: number | null = null;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
    this.#cutter = new LineCutter({ maxBytes: maxLineBytes }, (line, isPiece) => this.#onLine(line, isPiece));
  }

  /** Bytes of lines that are not in a complete block yet. */
  get openBytes(): number {
    return this.#bytes.length;
  }

  /** Cuts more bytes, until a block is complete; false if there is more to cut, for which `push` is called with nothing. */
  push(data: Buffer | null): boolean {
    if (data) this.#cutter.push(data);
    return this.#cutter.cut(() => this.#ready.length === 0);
  }

  /** The complete block, once. */
  take(): Lines | null {
    return this.#ready.shift() ?? null;
  }

  /** The lines so far as a block; null if there are none. */
  rest(): Lines | null {
    this.#close();
    return this.take();
  }

  /** The upload is complete: its last line may have no end. */
  end(): void {
    this.#cutter.end();
  }

  #onLine(line: Buffer, isPiece: boolean): void {
    let bytes = line;
    if (this.#isFirst && bytes.subarray(0, 3).equals(BYTE_ORDER_MARK)) bytes = bytes.subarray(3);
    this.#isFirst = false;
    if (bytes.at(-1) === RETURN) bytes = bytes.subarray(0, -1);
    const wasTooLong = this.#isTooLong;
    this.#isTooLong = isPiece;
    if (isPiece) return;
    if (wasTooLong || bytes.length > this.#maxLineBytes) bytes = TOO_LONG;
    else if (bytes.every((byte) => byte <= SPACE && byte !== 0)) return;
    this.#add(bytes);
  }

  #add(line: Buffer): void {
    if (this.#lineCount > 0) this.#bytes.add(NEWLINE, 0, 1);
    this.#bytes.add(line, 0, line.length);
    this.#lineCount += 1;
    const isFull = this.#bytes.length >= BLOCK_BYTES || this.#lineCount >= BLOCK_LINES;
    if (this.wantedLines === null ? isFull : this.#lineCount >= this.wantedLines) this.#close();
  }

  #close(): void {
    if (this.#lineCount === 0) return;
    const bytes = this.#bytes.take();
    this.#ready.push({ lineCount: this.#lineCount, bytes, digest: hash("sha256", bytes, "buffer") });
    this.#lineCount = 0;
  }
}

/** The lines of a block. */
export function linesOf(bytes: Uint8Array): Buffer[] {
  const block = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const lines: Buffer[] = [];
  for (let start = 0; ;) {
    const end = block.indexOf(NEWLINE, start);
    lines.push(block.subarray(start, end === -1 ? block.length : end));
    if (end === -1) return lines;
    start = end + 1;
  }
}
