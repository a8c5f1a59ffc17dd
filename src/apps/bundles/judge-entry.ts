import { type Entry, type LocalFileHeader, parseExtraFields } from "yauzl";

const MIB = 1024 * 1024;

/** How much an upload may hold by default. Sizes are unpacked. */
export const BUNDLE_LIMITS = {
  /** Files and folders together. */
  maxFiles: 100_000,
  maxTotalBytes: 8 * 1024 * MIB,
  maxFileBytes: 4 * 1024 * MIB,
  // Of unpacked to packed size, beyond `ratioFreeBytes`. Source code has 10, a table of text 40; deflate ends at 1,032.
  maxRatio: 100,
  ratioFreeBytes: MIB,
  // Small enough to do no harm, and no honest bundle past it packs to a hundredth.
  ratioFreeTotalBytes: 64 * MIB,
};
export type BundleLimits = Readonly<typeof BUNDLE_LIMITS>;

const ENCRYPTED_FLAGS = 0x2041;
const PATCH_FLAG = 0x20;
const DESCRIPTOR_FLAG = 0x08;
const UNIX_HOSTS: ReadonlySet<number> = new Set([3, 19]);
const IN_ZIP64 = 0xffffffff;
const ZIP64_FIELD = 0x0001;

const STORED = 0;
export const DEFLATED = 8;
const METHODS: Readonly<Record<number, string>> = {
  9: " (Deflate64)",
  12: " (bzip2)",
  14: " (LZMA)",
  93: " (Zstandard)",
  95: " (xz)",
  99: " (AES)",
};

const KIND_MASK = 0o170000;
const REGULAR = 0o100000;
const FOLDER = 0o040000;
const KINDS: Readonly<Record<number, string>> = {
  0o010000: "a named pipe",
  0o020000: "a device",
  0o060000: "a device",
  0o120000: "a symbolic link",
  0o140000: "a socket",
};

/** Why an entry is not taken, by what the directory says of it: its kind, its flags, its sizes. */
export function entryProblems(entry: Entry, isFolder: boolean, limits: BundleLimits): string[] {
  const problems = [kindProblem(entry, isFolder), methodProblem(entry), sizeProblem(entry, isFolder, limits)];
  return problems.filter((problem) => problem !== null);
}

/** The mode of the file: 0755 if its owner may execute it, else 0644; what else was set is not kept. */
export function modeOf(entry: Entry): number {
  return ((unixMode(entry) ?? 0) & 0o100) === 0 ? 0o644 : 0o755;
}

function unixMode({ versionMadeBy, externalFileAttributes }: Entry): number | null {
  return UNIX_HOSTS.has(versionMadeBy >>> 8) ? externalFileAttributes >>> 16 : null;
}

function kindProblem(entry: Entry, isFolder: boolean): string | null {
  const kind = (unixMode(entry) ?? 0) & KIND_MASK;
  if (kind === 0 || kind === (isFolder ? FOLDER : REGULAR)) return null;
  if (kind === FOLDER) return "is a folder, but has the name of a file";
  if (kind === REGULAR) return "is a file, but has the name of a folder";
  return `is ${KINDS[kind] ?? "of an unknown kind"}; only files and folders are allowed`;
}

function methodProblem({ generalPurposeBitFlag: flags, compressionMethod: method }: Entry): string | null {
  if ((flags & ENCRYPTED_FLAGS) !== 0) return "is encrypted";
  if ((flags & PATCH_FLAG) !== 0) return "is a patch of another file";
  if (method === STORED || method === DEFLATED) return null;
  return `is compressed by method ${method}${METHODS[method] ?? ""}; use deflate`;
}

function sizeProblem(entry: Entry, isFolder: boolean, limits: BundleLimits): string | null {
  const { uncompressedSize: bytes, compressedSize: packedBytes, compressionMethod: method } = entry;
  if (isFolder) return bytes === 0 ? null : "is a folder, but has content";
  if (method === STORED && bytes !== packedBytes) return "declares two different sizes";
  if (bytes > limits.maxFileBytes) return `is larger than ${limits.maxFileBytes} bytes`;
  if (bytes > limits.ratioFreeBytes && bytes > packedBytes * limits.maxRatio)
    return `unpacks to more than ${limits.maxRatio} times its size`;
  return null;
}

/** What the header before an entry's bytes says otherwise than the directory, where it says it at all. */
export function localProblem(entry: Entry, local: LocalFileHeader): string | null {
  const isLater = (local.generalPurposeBitFlag & DESCRIPTOR_FLAG) !== 0;
  const { bytes, packedBytes } = localSizes(local);
  // Zero stands for "not known yet" in the header of a stream.
  const isOther = (here: number, there: number): boolean => here !== there && !(isLater && here === 0);
  const isPlain = ({ generalPurposeBitFlag: flags }: Entry | LocalFileHeader): boolean =>
    (flags & ENCRYPTED_FLAGS) === 0;
  const facts: readonly (readonly [string, boolean])[] = [
    ["name", !local.fileName.equals(entry.fileNameRaw)],
    ["method", local.compressionMethod !== entry.compressionMethod || isPlain(local) !== isPlain(entry)],
    ["size", isOther(bytes, entry.uncompressedSize)],
    ["packed size", isOther(packedBytes, entry.compressedSize)],
    ["checksum", isOther(local.crc32, entry.crc32)],
  ];
  const contradicted = facts.filter(([, isContradicted]) => isContradicted).map(([fact]) => fact);
  if (contradicted.length === 0) return null;
  return `has a header that contradicts the zip's directory: ${contradicted.join(", ")}`;
}

function localSizes({ uncompressedSize, compressedSize, extraField }: LocalFileHeader) {
  const large = parseExtraFields(extraField).find(({ id }) => id === ZIP64_FIELD)?.data;
  let at = 0;
  const size = (short: number): number => {
    if (short !== IN_ZIP64 || !large || large.length < at + 8) return short;
    at += 8;
    return Number(large.readBigUInt64LE(at - 8));
  };
  return { bytes: size(uncompressedSize), packedBytes: size(compressedSize) };
}
