const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPENING = new Set([0x7b, 0x5b]);
const CLOSING = new Set([0x7d, 0x5d]);

/** The names of an object's own members. Only for bytes that `checkJson` has passed. */
export function memberNames(body: Buffer): string[] {
  const names: string[] = [];
  let depth = 0;
  let isName = true;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]!;
    if (byte === QUOTE) {
      const end = stringEnd(body, at);
      if (depth === 1 && isName) names.push(JSON.parse(body.toString("utf8", at, end)) as string);
      at = end - 1;
    } else if (OPENING.has(byte)) depth += 1;
    else if (CLOSING.has(byte)) depth -= 1;
    else if (depth === 1 && byte === COLON) isName = false;
    else if (depth === 1 && byte === COMMA) isName = true;
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
