import { parse, TomlError } from "smol-toml";

import type { Problems } from "./problems.ts";

/** A table as it came from a file or a payload: nothing about its members is known yet. */
export type RawTable = Readonly<Record<string, unknown>>;

/** The largest configuration text that is looked at, in bytes. */
export const MAX_TOML_BYTES = 64 * 1024;
const MAX_DEPTH = 16;
/** Of keys, tables and lists together: 64 KiB of them take the parser 40 ms, and what they are read by as much again. */
const MAX_PARTS = 4_000;

const [EQUALS, BRACKET, BRACE] = [0x3d, 0x5b, 0x7b];

/** Parses TOML that nobody has checked; null, and a problem on the list, when it cannot be used. */
export function parseToml(text: string, fileName: string, problems: Problems): RawTable | null {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_TOML_BYTES) {
    problems.add(`${fileName} must be at most ${MAX_TOML_BYTES} bytes, got ${bytes}`);
    return null;
  }
  if (partCount(text) > MAX_PARTS) {
    problems.add(`${fileName} must have at most ${MAX_PARTS} keys, tables and lists`);
    return null;
  }
  try {
    const table = parse(text, {
      maxDepth: MAX_DEPTH,
      unsafeKeyBehaviour: "throw",
      // Otherwise one huge integer would hide every other problem of the file.
      integersAsBigInt: "asNeeded",
    });
    // Dotted keys and table headers nest without the parser's counting.
    if (isDeeperThan(table, MAX_DEPTH)) {
      problems.add(`${fileName} must be nested at most ${MAX_DEPTH} levels deep`);
      return null;
    }
    return table;
  } catch (error) {
    problems.add(`${fileName} is not valid TOML: ${reason(error)}`);
    return null;
  }
}

/** True for a table, false for lists, dates and everything else. */
export function isTable(value: unknown): value is RawTable {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** How many signs begin a value, a table or a list; those in texts count too, as nobody has looked for texts yet. */
function partCount(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const sign = text.charCodeAt(at);
    if (sign === EQUALS || sign === BRACKET || sign === BRACE) count += 1;
  }
  return count;
}

/** The parser's own message shows the lines around the fault, which may hold a password. */
function reason(error: unknown): string {
  if (!(error instanceof TomlError)) return "the parser gave up";
  const summary = error.message.split("\n", 1)[0] ?? "";
  return `${summary.replace(/^Invalid TOML document: /, "")} (line ${error.line}, column ${error.column})`;
}

/** Goes down level by level: recursion would end in a stack overflow on what it looks for. */
function isDeeperThan(root: object, maxDepth: number): boolean {
  let level: object[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return true;
    level = level.flatMap((node) => Object.values(node).filter((value) => typeof value === "object"));
  }
  return false;
}
