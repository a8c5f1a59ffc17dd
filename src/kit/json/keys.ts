import { hash } from "node:crypto";
import { BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, COLON_SIGN, COMMA_SIGN } from "./scan.ts";
import { OPEN_BRACE, OPEN_BRACKET, QUOTE } from "./scan.ts";

/** Up to here, each key is compared with all earlier ones: 8 keys take 0.45 µs (1.6 with a Set), 32 keys 2.4 (6.4). */
export const FEW_KEYS = 32;

/** V8's Set holds no more; a body that reaches it has at least 150 MB in one object. */
export const MAX_KEYS = 2 ** 24 - 1;

/** Longer keys are remembered by digest: V8 hashes strings of more than 16,383 characters by their length alone. */
const LONG_KEY_BYTES = 1024;

/** From here on, a native comparison is faster. */
const NATIVE_COMPARE_BYTES = 32;

/** Start, end and filter of each key. */
const FIELDS = 3;

/** For each depth, the keys so far of the object that is open there. */
const noted: Uint32Array[] = [];

/** Notes a key (with its quotes, without escapes) as number `count` of the object at `depth`; true if it is a duplicate. */
export function repeatsFewKeys(
  body: Buffer,
  depth: number,
  count: number,
  open: number,
  end: number,
): boolean {
  const keys = (noted[depth] ??= new Uint32Array(FEW_KEYS * FIELDS));
  // Length, first, middle and last byte tell most keys apart; an empty key's are its quotes.
  const length = end - open;
  const middle = open + (length >> 1);
  const filter = ((length & 0x3f) << 24) | (body[open + 1]! << 16) | (body[middle]! << 8) | body[end - 2]!;
  const used = count * FIELDS;
  for (let i = 0; i < used; i += FIELDS) {
    if (keys[i + 2] === filter && hasSameBytes(body, keys[i]!, keys[i + 1]!, open, end)) return true;
  }
  keys[used] = open;
  keys[used + 1] = end;
  keys[used + 2] = filter;
  return false;
}

/** The noted keys of the object at `depth`, as a set for `addKey`. */
export function gatherKeys(body: Buffer, depth: number, count: number): Set<string> {
  const set = new Set<string>();
  for (let i = 0; i < count * FIELDS; i += FIELDS) {
    addKey(set, body, noted[depth]![i]!, noted[depth]![i + 1]!, false);
  }
  return set;
}

/** Adds a key as its reader will see it, escapes resolved; false if the set had it. */
export function addKey(
  set: Set<string>,
  body: Buffer,
  open: number,
  end: number,
  hasEscapes: boolean,
): boolean {
  const before = set.size;
  set.add(hasEscapes ? resolvedKey(body, open, end) : plainKey(body, open, end));
  return set.size > before;
}

function plainKey(body: Buffer, open: number, end: number): string {
  if (end - open - 2 > LONG_KEY_BYTES) return digest(body.subarray(open + 1, end - 1));
  // With its opening quote: V8 hashes digits by their value, and a caller could choose values that collide.
  return body.toString("latin1", open, end - 1);
}

function resolvedKey(body: Buffer, open: number, end: number): string {
  const key = Buffer.from(JSON.parse(body.toString("utf8", open, end)) as string);
  return key.length > LONG_KEY_BYTES ? digest(key) : `"${key.toString("latin1")}`;
}

function digest(key: Buffer): string {
  return hash("sha256", key, "base64url");
}

function hasSameBytes(body: Buffer, open: number, end: number, otherOpen: number, otherEnd: number): boolean {
  const length = end - open;
  if (length !== otherEnd - otherOpen) return false;
  if (length > NATIVE_COMPARE_BYTES) return body.compare(body, open, end, otherOpen, otherEnd) === 0;
  for (let i = 1; i < length; i++) {
    if (body[open + i] !== body[otherOpen + i]) return false;
  }
  return true;
}

/** The names of an object's own members. Only for bytes that `checkJson` has passed. */
export function memberNames(body: Buffer): string[] {
  const names: string[] = [];
  let depth = 0;
  let isName = true;
  for (let at = 0; at < body.length; at++) {
    switch (body[at]) {
      case QUOTE: {
        const end = stringEnd(body, at);
        if (depth === 1 && isName) names.push(JSON.parse(body.toString("utf8", at, end)) as string);
        at = end - 1;
        break;
      }
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth += 1;
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth -= 1;
        break;
      case COLON_SIGN:
        if (depth === 1) isName = false;
        break;
      case COMMA_SIGN:
        if (depth === 1) isName = true;
        break;
      default:
    }
  }
  return names;
}

/** The offset behind the string that opens at `open`. */
function stringEnd(body: Buffer, open: number): number {
  for (let at = body.indexOf(QUOTE, open + 1); ; at = body.indexOf(QUOTE, at + 1)) {
    let escapes = 0;
    while (body[at - 1 - escapes] === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return at + 1;
  }
}
