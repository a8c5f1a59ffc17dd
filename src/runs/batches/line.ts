import { checkJson, MAX_DEPTH } from "../../kit/json/check-json.ts";
import { memberNames } from "../../kit/json/keys.ts";
import { findMembers } from "../../kit/json/members.ts";
import { AppError } from "../../model/errors.ts";
import type { Wishes } from "../../model/terms.ts";
import { isLineWish, lineWishes } from "../../model/wishes.ts";

/** A line of a batch as it was read: what it calls the function with, or why it cannot be a call. */
export type ReadLine = {
  /** The caller's own id for it, as JSON. */
  readonly label: string | null;
} & ({ readonly input: Buffer; readonly wishes: Wishes | null } | { readonly fault: AppError });

const MAX_ID_CHARS = 256;
const ID = "id";
const INPUT = "input";
const TAG = "tag";
const NO_INPUT = Buffer.from("{}");
const OPEN_BRACE = 0x7b;

/** Stored in place of a line that was longer than the app accepts; not JSON. */
export const TOO_LONG = Buffer.from("\0too long");

/** Reads a line; `rest` is what the upload asks for all lines, `from` when their times begin. */
export function readLine(bytes: Buffer, rest: Wishes | null, from: number): ReadLine {
  if (bytes.equals(TOO_LONG))
    return {
      label: null,
      fault: new AppError("body_too_large", { message: "The line is longer than max_body." }),
    };
  // The input is one level down.
  const fault = checkJson(bytes, MAX_DEPTH + 1);
  if (fault) return { label: null, fault: new AppError("invalid_json", { message: fault.message }) };
  let label: string | null = null;
  try {
    label = readLabel(bytes);
    return { label, ...readCall(bytes, rest, from) };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { label, fault: error };
  }
}

function readLabel(bytes: Buffer): string | null {
  const text = findMembers(bytes, [ID]).get(ID)?.bytes.toString("utf8");
  if (text === undefined || text === "null") return null;
  const value: unknown = JSON.parse(text);
  const isName = typeof value === "string" && value.length <= MAX_ID_CHARS;
  if (isName || Number.isSafeInteger(value)) return JSON.stringify(value);
  throw bad(`id must be a text of up to ${MAX_ID_CHARS} characters, or a whole number`);
}

function readCall(bytes: Buffer, rest: Wishes | null, from: number) {
  const names = memberNames(bytes).filter((name) => name !== ID);
  const unknown = names.find((name) => name !== INPUT && !isLineWish(name));
  if (unknown !== undefined)
    throw bad(
      `the line has an unknown member ${JSON.stringify(unknown.slice(0, 100))}: arguments belong into input`,
    );
  const members = findMembers(bytes, names);
  const input = members.get(INPUT)?.bytes ?? NO_INPUT;
  if (input[0] !== OPEN_BRACE) throw bad("input must be an object");
  const asked = names.flatMap((name): [string, string][] => {
    const text = members.get(name)?.bytes.toString("utf8");
    return name === INPUT || text === undefined ? [] : textsOf(name, JSON.parse(text));
  });
  // A copy, because the line is a part of a larger buffer.
  return { input: Buffer.from(input), wishes: asked.length > 0 ? lineWishes(asked, rest, from) : rest };
}

/** A wish as a query would have it; null asks for nothing. */
function textsOf(name: string, value: unknown): [string, string][] {
  if (value === null) return [];
  if (typeof value === "string" || typeof value === "number") return [[name, String(value)]];
  if (name === TAG && Array.isArray(value) && value.every((tag) => typeof tag === "string"))
    return value.map((tag: string) => [name, tag]);
  throw bad(`${name} must be a text or a number`);
}

function bad(text: string): AppError {
  return new AppError("bad_request", { message: `${text[0]!.toUpperCase()}${text.slice(1)}.` });
}
