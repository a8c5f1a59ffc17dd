const CR = 0x0d;
const LF = 0x0a;
const ZERO = 0x30;
const NINE = 0x39;
const LOWER_CASE = 0x20;
const LENGTH_NAME = Buffer.from("content-length:");
const STATUS_COLUMN = "HTTP/1.1 ".length;

/** What the bytes fed so far amount to. */
export type Parsed = "partial" | "complete" | "broken";

/**
 * Reads one HTTP/1.1 answer after another from a connection that never pipelines, however the bytes are cut:
 * status, content-length, body. It allocates nothing, so that the load generator stays out of the picture.
 */
export class ResponseParser {
  /** The status of the answer being read, or of the last one when it is complete. */
  status = 0;
  #isInBody = false;
  #isStatusLine = true;
  #column = 0;
  /** How much of "content-length:" this line has matched; -1 after a mismatch. */
  #matched = 0;
  #contentBytes = -1;
  #bodyBytesLeft = 0;

  /** Takes `count` bytes; "broken" is an answer without a content-length, or bytes that nobody asked for. */
  feed(bytes: Uint8Array, count: number): Parsed {
    let at = 0;
    if (!this.#isInBody) {
      at = this.#readHead(bytes, count);
      if (!this.#isInBody) return "partial";
      if (this.#contentBytes < 0) return "broken";
      this.#bodyBytesLeft = this.#contentBytes;
    }
    this.#bodyBytesLeft -= count - at;
    if (this.#bodyBytesLeft > 0) return "partial";
    if (this.#bodyBytesLeft < 0) return "broken";
    this.#isInBody = false;
    return "complete";
  }

  /** Returns where the body begins, or `count` when the head goes on. */
  #readHead(bytes: Uint8Array, count: number): number {
    for (let at = 0; at < count; at++) {
      const byte = bytes[at]!;
      if (byte === LF) {
        const isEmptyLine = this.#column === 0;
        this.#column = 0;
        this.#matched = 0;
        if (isEmptyLine && !this.#isStatusLine) {
          this.#isInBody = true;
          this.#isStatusLine = true;
          return at + 1;
        }
        this.#isStatusLine = false;
      } else if (byte !== CR) {
        if (this.#isStatusLine) this.#readStatus(byte);
        else if (this.#matched >= 0) this.#readHeader(byte);
        this.#column += 1;
      }
    }
    return count;
  }

  #readStatus(byte: number): void {
    if (this.#column === 0) {
      this.status = 0;
      this.#contentBytes = -1;
    }
    if (this.#column >= STATUS_COLUMN && this.#column < STATUS_COLUMN + 3) {
      this.status = this.status * 10 + byte - ZERO;
    }
  }

  #readHeader(byte: number): void {
    if (this.#matched < LENGTH_NAME.length) {
      this.#matched = (byte | LOWER_CASE) === LENGTH_NAME[this.#matched] ? this.#matched + 1 : -1;
    } else if (byte >= ZERO && byte <= NINE) {
      this.#contentBytes = Math.max(0, this.#contentBytes) * 10 + byte - ZERO;
    }
  }
}
