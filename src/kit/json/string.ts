import { BACKSLASH, QUOTE, skipPlain } from "../../kit/json/plain.ts";
import { fault, FAULTY } from "./fault.ts";

const LETTER_U = 0x75;

/** 1 for each byte that may follow a backslash, `u` excepted. */
const IS_SHORT_ESCAPE = new Uint8Array(256);
for (const letter of '"\\/bfnrt') IS_SHORT_ESCAPE[letter.charCodeAt(0)] = 1;

/** The value of each hexadecimal digit, 0xff for any other byte. */
const HEX_VALUE = new Uint8Array(256).fill(0xff);
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16);
  HEX_VALUE[digit.charCodeAt(0)] = value;
  HEX_VALUE[digit.toUpperCase().charCodeAt(0)] = value;
}

/** Scans the string whose opening quote is at `open`; the offset after its closing quote, or `FAULTY`. */
export function scanString(body: Buffer, open: number): number {
  let at = open + 1;
  for (;;) {
    at = skipPlain(body, at);
    if (at >= body.length) return fault("a string without its closing quote", open);
    const byte = body[at]!;
    if (byte === QUOTE) return at + 1;
    if (byte !== BACKSLASH) return fault("a control character inside a string", at);
    at = scanEscape(body, at);
    if (at === FAULTY) return FAULTY;
  }
}

function scanEscape(body: Buffer, backslash: number): number {
  if (backslash + 1 >= body.length) return fault("an escape cut short", backslash);
  const letter = body[backslash + 1]!;
  if (IS_SHORT_ESCAPE[letter] === 1) return backslash + 2;
  if (letter !== LETTER_U) return fault("an unknown escape inside a string", backslash);
  const unit = escapedUnit(body, backslash);
  if (unit < 0) return fault("a \\u escape without four hexadecimal digits", backslash);
  if (unit < 0xd800 || unit > 0xdfff) return backslash + 6;
  // UTF-16 halves: only a high one directly followed by a low one is a character.
  const next = unit < 0xdc00 ? escapedUnit(body, backslash + 6) : -1;
  if (next < 0xdc00 || next > 0xdfff) return fault("a lone surrogate escape", backslash);
  return backslash + 12;
}

/** The UTF-16 unit of a complete `\u` escape at this offset, or -1. */
function escapedUnit(body: Buffer, at: number): number {
  if (at + 6 > body.length || body[at] !== BACKSLASH || body[at + 1] !== LETTER_U) return -1;
  const a = HEX_VALUE[body[at + 2]!]!;
  const b = HEX_VALUE[body[at + 3]!]!;
  const c = HEX_VALUE[body[at + 4]!]!;
  const d = HEX_VALUE[body[at + 5]!]!;
  return (a | b | c | d) > 0xf ? -1 : (a << 12) | (b << 8) | (c << 4) | d;
}
