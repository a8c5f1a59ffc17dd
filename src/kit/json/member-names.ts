const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACE = 0x7d;
const CLOSE_BRACKET = 0x5d;

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
      case COLON:
        if (depth === 1) isName = false;
        break;
      case COMMA:
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
