const LF = 0x0a;
const ZERO = 0x30;
const NINE = 0x39;
const LOWER_CASE = 0x20;
const LOWER_A = 0x61;
const LOWER_F = 0x66;
/** CR and LF behind the data of a chunk. */
const GAP_BYTES = 2;

/** Takes a piece of an answer's body: `bytes` from `from` to `to`, good until it returns. */
export type BodyTaker = (bytes: Uint8Array, from: number, to: number) => void;

/** Reads one HTTP/1.1 answer in chunks, however its bytes are cut, and hands on its body. */
export class StreamParser {
  /** 0 until the head is read. */
  status = 0;
  isGzip = false;
  state: "head" | "size" | "data" | "gap" | "last line" | "done" | "broken" = "head";
  readonly #take: BodyTaker;
  #head = "";
  #sizeBytes = 0;
  #isSizeOver = false;
  #left = 0;

  constructor(take: BodyTaker) {
    this.#take = take;
  }

  feed(bytes: Uint8Array, count: number): void {
    let at = 0;
    while (at < count) {
      switch (this.state) {
        case "head":
          at = this.#readHead(bytes, at, count);
          break;
        case "size":
          this.#readSize(bytes[at++]!);
          break;
        case "data": {
          const end = Math.min(count, at + this.#left);
          this.#left -= end - at;
          this.#take(bytes, at, end);
          at = end;
          if (this.#left === 0) this.#skip("gap");
          break;
        }
        case "gap":
        case "last line":
          at += 1;
          this.#left -= 1;
          if (this.#left === 0) this.state = this.state === "gap" ? "size" : "done";
          break;
        case "done":
        case "broken":
          this.state = "broken";
          return;
        default:
          this.state satisfies never;
      }
    }
  }

  #readHead(bytes: Uint8Array, from: number, to: number): number {
    const before = this.#head.length;
    this.#head += Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString("latin1");
    const end = this.#head.indexOf("\r\n\r\n");
    if (end === -1) return to;
    const head = this.#head.slice(0, end).toLowerCase();
    this.#head = "";
    this.status = Number(head.slice("http/1.1 ".length, "http/1.1 200".length));
    this.isGzip = head.includes("\r\ncontent-encoding: gzip");
    this.state = head.includes("\r\ntransfer-encoding: chunked") ? "size" : "broken";
    return from + end + "\r\n\r\n".length - before;
  }

  #readSize(byte: number): void {
    if (byte === LF) {
      this.#left = this.#sizeBytes;
      if (this.#sizeBytes === 0) this.#skip("last line");
      else this.state = "data";
      this.#sizeBytes = 0;
      this.#isSizeOver = false;
      return;
    }
    const letter = byte | LOWER_CASE;
    if (this.#isSizeOver) return;
    if (byte >= ZERO && byte <= NINE) this.#sizeBytes = this.#sizeBytes * 16 + byte - ZERO;
    else if (letter >= LOWER_A && letter <= LOWER_F) {
      this.#sizeBytes = this.#sizeBytes * 16 + letter - LOWER_A + 10;
    } else this.#isSizeOver = true;
  }

  #skip(state: "gap" | "last line"): void {
    this.state = state;
    this.#left = GAP_BYTES;
  }
}
