import { AppError } from "../../model/errors.ts";

const MAX_PATH_BYTES = 4_000;
const MAX_NAME_BYTES = 255;

/** The names on the way to something in a volume. `/`, `.` and the empty text are the volume itself. */
export type VolumePath = readonly string[];

/** Reads a path as callers write it, from the volume's root with or without a slash; throws `bad_request`. */
export function readVolumePath(text: string): VolumePath {
  if (Buffer.byteLength(text) > MAX_PATH_BYTES) throw badPath("is too long");
  if (text.includes("\0") || !text.isWellFormed()) throw badPath("contains a character that is not allowed");
  const names = text.split("/").filter((name) => name !== "" && name !== ".");
  if (names.includes("..")) throw badPath("must not lead out of the volume");
  if (names.some((name) => Buffer.byteLength(name) > MAX_NAME_BYTES))
    throw badPath("has a name that is too long");
  return names;
}

/** The path of a file: of something inside the volume, and not written as a folder's; throws `bad_request`. */
export function readFilePath(text: string): VolumePath {
  const names = readVolumePath(text);
  if (names.length === 0 || /(^|\/)\.?$/.test(text)) throw badPath("names a folder");
  return names;
}

/** The answer to a path that is not taken. */
export function badPath(problem: string): AppError {
  return new AppError("bad_request", { message: `The path ${problem}.` });
}
