import { fault } from "./fault.ts";

/** Python refuses to read a longer integer (`sys.int_info.default_max_str_digits`); fractions have no limit. */
export const MAX_INTEGER_DIGITS = 4300;

const MINUS = 0x2d;
const PLUS = 0x2b;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LETTER_I = 0x49;
/** Sets the bit that makes `E` an `e`. */
const LOWER_CASE = 0x20;
const LETTER_E = 0x65;

/** Scans the number that begins at `start` with a digit or a minus; the offset after it, or `FAULTY`. */
export function scanNumber(body: Buffer, start: number): number {
  const end = body.length;
  const first = body[start] === MINUS ? start + 1 : start;
  let at = skipDigits(body, first);
  if (at === first) {
    const isInfinity = first < end && body[first] === LETTER_I;
    return fault(isInfinity ? "-Infinity, which JSON does not have," : "a minus without a digit", start);
  }
  if (body[first] === ZERO && at > first + 1) return fault("a number with a leading zero", start);
  const integerDigits = at - first;
  let isInteger = true;
  if (at < end && body[at] === POINT) {
    isInteger = false;
    const fraction = at + 1;
    at = skipDigits(body, fraction);
    if (at === fraction) return fault("a decimal point without a digit after it", start);
  }
  if (at < end && (body[at]! | LOWER_CASE) === LETTER_E) {
    isInteger = false;
    at += 1;
    if (at < end && (body[at] === PLUS || body[at] === MINUS)) at += 1;
    const exponent = at;
    at = skipDigits(body, exponent);
    if (at === exponent) return fault("an exponent without a digit", start);
  }
  if (isInteger && integerDigits > MAX_INTEGER_DIGITS) {
    return fault(`an integer of more than ${MAX_INTEGER_DIGITS} digits`, start);
  }
  return at;
}

function skipDigits(body: Buffer, at: number): number {
  const end = body.length;
  while (at < end) {
    const byte = body[at]!;
    if (byte < ZERO || byte > NINE) break;
    at += 1;
  }
  return at;
}
