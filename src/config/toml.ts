import { parse, TomlError } from "smol-toml";
import type { Problems } from "./problems.ts";
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

/** A table as it came from a file or a payload: nothing about its members is known yet. */
export type RawTable = Readonly<Record<string, unknown>>;

/** The largest configuration text that is looked at, in bytes. */
const MAX_TOML_BYTES = 64 * 1024;
const MAX_DEPTH = 16;
/** Of keys, tables and lists together: 64 KiB of them take the parser 40 ms, and what they are read by as much again. */
const MAX_PARTS = 4_000;

/** Parses unchecked TOML; null, with a problem on the list, if it cannot be used. */
export function parseToml(text: string, fileName: string, problems: Problems): RawTable | null {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_TOML_BYTES) {
    problems.add(`${fileName} must be at most ${MAX_TOML_BYTES} bytes, got ${bytes}`);
    return null;
  }
  // Signs inside strings count too: nothing is parsed yet.
  if (text.split(/[=[{]/).length - 1 > MAX_PARTS) {
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

/** What a path turned out to be. */
type FileText =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "absent" }
  | { readonly kind: "unusable"; readonly reason: string };

/** Reads a configuration file of at most 64 KiB; synchronously, because that takes well under a millisecond. */
export function readConfigFile(path: string): FileText {
  let descriptor: number;
  try {
    // Without O_NONBLOCK the opening of a named pipe would wait for a writer that never comes.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? { kind: "absent" } : { kind: "unusable", reason: `cannot be read: ${code}` };
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return { kind: "unusable", reason: "is not a regular file" };
    if (stats.size > MAX_TOML_BYTES) {
      return { kind: "unusable", reason: `must be at most ${MAX_TOML_BYTES} bytes, got ${stats.size}` };
    }
    const text = new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(descriptor));
    return { kind: "text", text };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    const reason = code === "ERR_ENCODING_INVALID_ENCODED_DATA" ? "is not UTF-8" : `cannot be read: ${code}`;
    return { kind: "unusable", reason };
  } finally {
    closeSync(descriptor);
  }
}
