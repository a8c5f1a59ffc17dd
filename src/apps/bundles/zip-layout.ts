import type { FileHandle } from "node:fs/promises";

/** The bytes of the zip from an entry's header to the end of its content. */
export type EntrySpan = { readonly shownName: string; readonly start: number; readonly end: number };

type DirectorySpan = { readonly start: number; readonly end: number; readonly recordStart: number };

const SCAN_BYTES = 1024 * 1024;
const DIRECTORY_ENTRY = Buffer.from("PK\u0001\u0002", "latin1");
const MIN_DIRECTORY_ENTRY_BYTES = 46;

/** Entries that share bytes, with each other or with the directory: the way a small zip unpacks to a huge one. */
export function overlapProblems(spans: readonly EntrySpan[], directory: DirectorySpan): string[] {
  const problems: string[] = [];
  let before: EntrySpan | null = null;
  for (const span of spans.toSorted((a, b) => a.start - b.start)) {
    if (before && before.end > span.start) {
      problems.push(`${span.shownName} overlaps ${before.shownName} in the zip.`);
    }
    if (span.end > directory.start) problems.push(`${span.shownName} overlaps the zip's directory.`);
    if (!before || span.end > before.end) before = span;
  }
  return problems;
}

/**
 * Whether there are directory entries in the bytes that belong to nothing: then another reader may see other files
 * in this zip. Anything else may stand there, as the program of a self-extracting zip does.
 */
export async function hasSecondDirectory(
  file: FileHandle,
  spans: readonly EntrySpan[],
  directory: DirectorySpan,
): Promise<boolean> {
  let at = 0;
  for (const { start, end } of [...spans.toSorted((a, b) => a.start - b.start), directory]) {
    if (await holdsDirectoryEntry(file, at, start)) return true;
    at = end;
  }
  return await holdsDirectoryEntry(file, at, directory.recordStart);
}

async function holdsDirectoryEntry(file: FileHandle, start: number, end: number): Promise<boolean> {
  if (end - start < MIN_DIRECTORY_ENTRY_BYTES) return false;
  const window = Buffer.allocUnsafe(Math.min(SCAN_BYTES, end - start));
  // Windows overlap, so that none is cut in two.
  for (let at = start; at < end; at += window.length - DIRECTORY_ENTRY.length + 1) {
    const { bytesRead } = await file.read(window, 0, Math.min(window.length, end - at), at);
    if (window.subarray(0, bytesRead).includes(DIRECTORY_ENTRY)) return true;
  }
  return false;
}
