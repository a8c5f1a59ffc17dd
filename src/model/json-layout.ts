/** Members deeper than this share one line: with a line for each, indentation would grow with the square of the depth. */
const MAX_INDENTED_DEPTH = 20;
const STEP = "  ";
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const SPACE_CODES: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d]);
const SIGN_CODES: ReadonlySet<number> = new Set(Array.from("{}[],:", (sign) => sign.charCodeAt(0)));

/**
 * JSON text with each member on its own line, down to a fixed depth, in linear time; numbers keep their digits.
 * Throws a SyntaxError if the text is not JSON.
 */
export function indentedJson(text: string): string {
  const pieces: string[] = [];
  let depth = 0;
  let isFirst = true;
  const breakLine = (): void => {
    if (depth > 0 && depth <= MAX_INDENTED_DEPTH) pieces.push("\n", STEP.repeat(depth));
  };
  for (const token of tokensOf(text)) {
    if (token === "]" || token === "}") {
      const isInOwnLine = !isFirst && depth <= MAX_INDENTED_DEPTH;
      depth -= 1;
      pieces.push(isInOwnLine ? `\n${STEP.repeat(depth)}${token}` : token);
      isFirst = false;
    } else if (token === ",") {
      pieces.push(token);
      breakLine();
    } else if (token === ":") {
      pieces.push(depth <= MAX_INDENTED_DEPTH ? ": " : token);
    } else {
      if (isFirst) breakLine();
      pieces.push(readable(token));
      isFirst = token === "[" || token === "{";
      if (isFirst) depth += 1;
    }
  }
  return pieces.join("");
}

/** JSON text without the space between its parts, otherwise as it is; throws a SyntaxError if the text is not JSON. */
export function compactJson(text: string): string {
  return [...tokensOf(text)].join("");
}

/** The members of a JSON object, each with its value as compact JSON; null if the text is no object. */
export function membersOfJson(text: string): (readonly [name: string, value: string])[] | null {
  let tokens: string[];
  try {
    tokens = [...tokensOf(text)];
  } catch {
    return null;
  }
  if (tokens[0] !== "{") return null;
  const members: (readonly [string, string])[] = [];
  let depth = 0;
  let start = 1;
  for (const [index, token] of tokens.entries()) {
    const isEnd = depth === 1 && (token === "," || token === "}");
    if (isEnd && index > start) {
      // A name and a colon come before the value.
      members.push([JSON.parse(tokens[start]!) as string, tokens.slice(start + 2, index).join("")]);
      start = index + 1;
    }
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
  }
  return members;
}

/** The signs, strings, numbers and words of JSON text, in order. */
function* tokensOf(text: string): Generator<string> {
  // Only to be sure that it is JSON: read and written again, long numbers would lose digits.
  JSON.parse(text);
  for (let index = 0; index < text.length;) {
    const code = text.charCodeAt(index);
    if (SPACE_CODES.has(code)) {
      index += 1;
      continue;
    }
    const end =
      code === QUOTE ? stringEnd(text, index) : SIGN_CODES.has(code) ? index + 1 : wordEnd(text, index);
    yield text.slice(index, end);
    index = end;
  }
}

function stringEnd(text: string, start: number): number {
  let index = start + 1;
  for (let code = text.charCodeAt(index); code !== QUOTE; code = text.charCodeAt(index)) {
    index += code === BACKSLASH ? 2 : 1;
  }
  return index + 1;
}

function wordEnd(text: string, start: number): number {
  let index = start + 1;
  while (index < text.length && !isBreak(text.charCodeAt(index))) index += 1;
  return index;
}

function isBreak(code: number): boolean {
  return SPACE_CODES.has(code) || SIGN_CODES.has(code);
}

/** A string with letters in place of their codes; any other token as it is. */
function readable(token: string): string {
  return token.includes("\\") ? JSON.stringify(JSON.parse(token)) : token;
}
