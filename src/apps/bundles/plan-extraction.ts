import type { FileHandle } from "node:fs/promises";
import type { Entry } from "yauzl";
import { judgeEntryName, showName } from "./entry-names.ts";
import { type BundleLimits, DEFLATED, entryProblems, localProblem, modeOf } from "./judge-entry.ts";
import { NameTree } from "./name-tree.ts";
import { COG_FILE } from "../../config/cog.ts";
import { BundleError, nameOf, Problems, ZipDirectory } from "./zip-directory.ts";

/** The bytes of the zip from an entry's header to the end of its content. */
type EntrySpan = { readonly shownName: string; readonly start: number; readonly end: number };

type DirectorySpan = { readonly start: number; readonly end: number; readonly recordStart: number };

const SCAN_BYTES = 1024 * 1024;
const DIRECTORY_ENTRY = Buffer.from("PK\u0001\u0002", "latin1");
const MIN_DIRECTORY_ENTRY_BYTES = 46;

/** Entries that share bytes, with each other or with the directory: the way a small zip unpacks to a huge one. */
function overlapProblems(spans: readonly EntrySpan[], directory: DirectorySpan): string[] {
  const problems: string[] = [];
  let before: EntrySpan | null = null;
  for (const span of spans.toSorted((a, b) => a.start - b.start)) {
    if (before && before.end > span.start)
      problems.push(`${span.shownName} overlaps ${before.shownName} in the zip.`);
    if (span.end > directory.start) problems.push(`${span.shownName} overlaps the zip's directory.`);
    if (!before || span.end > before.end) before = span;
  }
  return problems;
}

/** Whether directory entries are outside the directory: other readers may see other files then. */
async function hasSecondDirectory(file: FileHandle, spans: readonly EntrySpan[], directory: DirectorySpan) {
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

/** A file to be written, and where its bytes are in the zip. */
export type PlannedFile = {
  /** Below the bundle's root, with slashes; judged. */
  readonly name: string;
  readonly mode: number;
  readonly isDeflated: boolean;
  readonly dataStart: number;
  readonly packedBytes: number;
  readonly bytes: number;
  readonly crc32: number;
};

type ExtractionPlan = {
  /** Parents first. */
  readonly folders: readonly string[];
  readonly files: readonly PlannedFile[];
  /** What to say of a bundle without a `main.py` or `cog.yaml` at its root; null where there is one. */
  readonly noMain: string | null;
};

type PlanOptions = {
  readonly limits: BundleLimits;
  readonly needsMain: boolean;
  readonly signal?: AbortSignal | undefined;
};

/** Judges a whole zip before a byte of it is written; throws one `BundleError` with every problem. */
export async function planExtraction(file: FileHandle, options: PlanOptions): Promise<ExtractionPlan> {
  const directory = await ZipDirectory.open(file);
  const { entryCount } = directory.zip;
  if (entryCount === 0) throw new BundleError(["The zip contains no files."]);
  if (entryCount > options.limits.maxFiles)
    throw new BundleError([`The zip contains ${entryCount} entries, more than ${options.limits.maxFiles}.`]);
  return await new Planner(file, directory, options).plan();
}

/** Either makes an app: of a Cog model `main.py` is made later. */
const APP_FILES = ["main.py", COG_FILE] as const;

class Planner {
  readonly #file: FileHandle;
  readonly #directory: ZipDirectory;
  readonly #options: PlanOptions;
  readonly #problems = new Problems();
  readonly #tree = new NameTree();
  readonly #spans: EntrySpan[] = [];
  readonly #files: PlannedFile[] = [];
  #totalBytes = 0;
  #packedBytes = 0;

  constructor(file: FileHandle, directory: ZipDirectory, options: PlanOptions) {
    this.#file = file;
    this.#directory = directory;
    this.#options = options;
  }

  async plan(): Promise<ExtractionPlan> {
    for await (const entry of this.#directory.entries()) {
      this.#options.signal?.throwIfAborted();
      await this.#take(entry);
      // What is past a limit is not looked at further.
      if (this.#isTooMuch()) this.#problems.throwIfAny();
    }
    if (this.#isBomb())
      this.#problems.add(`The zip unpacks to more than ${this.#options.limits.maxRatio} times its size.`);
    for (const problem of overlapProblems(this.#spans, this.#directory.span)) this.#problems.add(problem);
    const noMain = this.#noMain();
    if (this.#options.needsMain && noMain !== null) this.#problems.add(noMain);
    this.#problems.throwIfAny();
    if (await hasSecondDirectory(this.#file, this.#spans, this.#directory.span))
      throw new BundleError(["The zip contains directory entries outside its directory."]);
    return { folders: this.#tree.folders, files: this.#files, noMain };
  }

  async #take(entry: Entry): Promise<void> {
    const raw = nameOf(entry);
    const judged = judgeEntryName(raw);
    const isFolder = raw.at(-1) === 0x2f;
    const problems = entryProblems(entry, isFolder, this.#options.limits);
    if (judged.kind === "refused") problems.unshift(judged.problem);
    const dataStart = await this.#locate(entry, problems, raw);
    for (const problem of problems) this.#problems.add(`${showName(raw)} ${problem}.`);
    if (judged.kind === "refused") return;

    const added = this.#tree.add(judged.name);
    if (added.kind === "refused") this.#problems.add(added.problem);
    if (added.kind !== "new" || isFolder || dataStart === null) return;
    this.#totalBytes += entry.uncompressedSize;
    this.#packedBytes += entry.compressedSize;
    this.#files.push({
      name: judged.name.names.join("/"),
      mode: modeOf(entry),
      isDeflated: entry.compressionMethod === DEFLATED,
      dataStart,
      packedBytes: entry.compressedSize,
      bytes: entry.uncompressedSize,
      crc32: entry.crc32,
    });
  }

  async #locate(entry: Entry, problems: string[], raw: Uint8Array): Promise<number | null> {
    try {
      const local = await this.#directory.zip.readLocalFileHeaderPromise(entry);
      const problem = localProblem(entry, local);
      if (problem !== null) problems.push(problem);
      const end = local.fileDataStart + entry.compressedSize;
      this.#spans.push({ shownName: showName(raw), start: entry.relativeOffsetOfLocalHeader, end });
      return local.fileDataStart;
    } catch (error) {
      if (!(error instanceof Error) || "errno" in error) throw error;
      problems.push("is not where the zip's directory says");
      return null;
    }
  }

  #isTooMuch(): boolean {
    const { maxFiles, maxTotalBytes } = this.#options.limits;
    const isTooMany = this.#tree.size > maxFiles;
    const isTooLarge = this.#totalBytes > maxTotalBytes;
    if (isTooMany) this.#problems.add(`The zip contains more than ${maxFiles} files and folders.`);
    if (isTooLarge) this.#problems.add(`The zip unpacks to more than ${maxTotalBytes} bytes.`);
    return isTooMany || isTooLarge;
  }

  /** Judged at the end: what comes last may be what does not pack. */
  #isBomb(): boolean {
    const { maxRatio, ratioFreeTotalBytes } = this.#options.limits;
    return this.#totalBytes > ratioFreeTotalBytes && this.#totalBytes > this.#packedBytes * maxRatio;
  }

  #noMain(): string | null {
    if (APP_FILES.some((name) => this.#tree.hasFile(name))) return null;
    const folder = this.#tree.onlyFolder;
    const inside = folder !== null && APP_FILES.find((name) => this.#tree.hasFile(folder, name));
    if (!inside) return "The zip has no main.py at its root.";
    return `${inside} is in ${showName(`${folder}/`)}: zip the folder's contents, not the folder.`;
  }
}
