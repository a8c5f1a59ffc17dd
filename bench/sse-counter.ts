const LF = 0x0a;
const LOWER_D = 0x64;
const ZERO = 0x30;
const NINE = 0x39;
/** Of a time in nanoseconds since the epoch, 19 digits: microseconds still fit a double exactly. */
const MICROSECOND_DIGITS = 16;

/**
 * Counts server-sent messages, each ended by a blank line, however the bytes are cut, and reads the number that a
 * message begins with. Blocks that do not start with `data:`, comments and errors, are none.
 */
export class SseCounter {
  messages = 0;
  readonly #onMessage: ((sentAtUs: number) => void) | null;
  #isLineStart = true;
  #isBlockStart = true;
  #isData = false;
  #value = 0;
  #digits = 0;

  /** Each message's number is told to `onMessage`, as microseconds if it is a time in nanoseconds. */
  constructor(onMessage: ((sentAtUs: number) => void) | null) {
    this.#onMessage = onMessage;
  }

  feed(bytes: Uint8Array, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      const byte = bytes[at]!;
      if (byte === LF) {
        if (this.#isLineStart) this.#endBlock();
        this.#isLineStart = true;
        continue;
      }
      this.#isLineStart = false;
      if (this.#isBlockStart) {
        this.#isBlockStart = false;
        this.#isData = byte === LOWER_D;
      }
      if (byte >= ZERO && byte <= NINE && this.#digits < MICROSECOND_DIGITS) {
        this.#value = this.#value * 10 + byte - ZERO;
        this.#digits += 1;
      }
    }
  }

  #endBlock(): void {
    if (this.#isData) {
      this.messages += 1;
      this.#onMessage?.(this.#value);
    }
    this.#isBlockStart = true;
    this.#isData = false;
    this.#value = 0;
    this.#digits = 0;
  }
}
