import type { Readable } from "node:stream";
import { AppError } from "../../model/errors.ts";

export type VolumeEntry = {
  readonly name: string;
  readonly isFolder: boolean;
  readonly sizeBytes: number;
  /** Epoch milliseconds. */
  readonly modifiedAt: number;
};

/** Bytes of a file, the first and the last included. */
export type ByteSpan = { readonly first: number; readonly last: number };

/** A file that can be read; its receiver reads or closes it. */
export type OpenFile = {
  readonly sizeBytes: number;
  /** Epoch nanoseconds. */
  readonly modifiedNs: bigint;
  /** Gives its bytes, once, and closes it; breaks off if there are fewer by then. */
  bytes(span: ByteSpan): Readable;
  close(): Promise<void>;
};

/** The size of a file before and after a change; null where there is none. */
export type SizeChange = { readonly beforeBytes: number | null; readonly afterBytes: number | null };

/** An app may make files without end; all of a list is in memory, and sorted in one go. */
export const MAX_ENTRIES = 100_000;

/** The files of a project's persistent storage. */
export type VolumeFiles = {
  /** What a folder holds, by name; nothing where there is no such folder. Throws `bad_request` if that is too much. */
  list(path: VolumePath): Promise<VolumeEntry[]>;
  /** Opens a file; throws `not_found`, and `bad_request` for what is not a file. */
  openFile(path: VolumePath): Promise<OpenFile>;
  /** Takes a file from a folder of ours on the same disk to its place, in one step that survives a power cut. */
  put(source: string, path: VolumePath): Promise<SizeChange>;
  /** Removes a file, or a link as such. */
  removeFile(path: VolumePath): Promise<SizeChange>;
  /** Takes a folder out of the volume in one step; what is in it is removed at leisure. */
  removeFolder(path: VolumePath): Promise<void>;
};

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

export function badPath(problem: string): AppError {
  return new AppError("bad_request", { message: `The path ${problem}.` });
}
