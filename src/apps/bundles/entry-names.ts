const MAX_NAME_BYTES = 255;
const MAX_PATH_BYTES = 1_024;
const MAX_LEVELS = 32;
const SHOWN_CHARACTERS = 100;

/** The name of a zip's entry as a place below the bundle's root; a folder's ended with a slash. */
export type EntryName = { readonly names: readonly string[]; readonly isFolder: boolean };

/** A name, or why it is not taken: the rest of a sentence that begins with it. */
export type JudgedName =
  | { readonly kind: "fine"; readonly name: EntryName }
  | { readonly kind: "refused"; readonly problem: string };

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
/** Control characters, line separators, and what turns the direction in which text is shown. */
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;
const UNSHOWABLE = /[\p{C}\p{Zl}\p{Zp}\\`]/gu;
const ENCODED_DOT = /%(?:25)*2e/gi;
const ENCODED_SLASH = /%(?:25)*(?:2f|5c)/i;

/** Judges a name by its bytes alone: what is fine names something below the root, on every system the same. */
export function judgeEntryName(raw: Uint8Array): JudgedName {
  const text = decode(raw);
  if (text === null) return refused("is not UTF-8");
  const problem = problemOf(text, raw.length);
  if (problem !== null) return refused(problem);
  const isFolder = text.endsWith("/");
  return { kind: "fine", name: { names: (isFolder ? text.slice(0, -1) : text).split("/"), isFolder } };
}

/** A name as it may be printed anywhere: in backticks, escaped, and cut when it is long. */
export function showName(raw: Uint8Array | string): string {
  const text = typeof raw === "string" ? raw : (decode(raw) ?? Buffer.from(raw).toString("latin1"));
  const shown = text.slice(0, SHOWN_CHARACTERS).replace(UNSHOWABLE, escape);
  const isCut = text.length > SHOWN_CHARACTERS;
  return `\`${shown}${isCut ? "…" : ""}\``;
}

/** Equal for two names that some file system takes for one: those that differ in case or composition alone. */
export function foldName(name: string): string {
  // Upper case first: it takes apart what has no single lower-case twin, such as ß and ſ.
  return name.normalize("NFC").toUpperCase().toLowerCase().normalize("NFC");
}

function problemOf(text: string, bytes: number): string | null {
  if (text === "") return "is empty";
  if (bytes > MAX_PATH_BYTES) return `is longer than ${MAX_PATH_BYTES} bytes`;
  if (CONTROLS.test(text)) return "contains a control character";
  if (text.includes("\\")) return "contains a backslash; a zip separates folders with /";
  if (text.startsWith("/")) return "is absolute";
  if (/^[A-Za-z]:/.test(text)) return "begins with a drive letter";
  const names = (text.endsWith("/") ? text.slice(0, -1) : text).split("/");
  if (names.length > MAX_LEVELS) return `is more than ${MAX_LEVELS} levels deep`;
  for (const name of names) {
    const problem = segmentProblem(name);
    if (problem !== null) return problem;
  }
  return null;
}

function segmentProblem(name: string): string | null {
  if (name === "") return "contains an empty name between two slashes";
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return `contains a name longer than ${MAX_NAME_BYTES} bytes`;
  // Nothing here decodes a name, but what an app does with it is not known.
  const plain = name.normalize("NFKC").replaceAll(ENCODED_DOT, ".");
  const isOfDots = plain.split(ENCODED_SLASH).some((part) => /^[.\s]+$/.test(part));
  return isOfDots ? "contains a name of only dots or spaces, which could lead out of its folder" : null;
}

function decode(raw: Uint8Array): string | null {
  try {
    return UTF8.decode(raw);
  } catch {
    return null;
  }
}

function escape(character: string): string {
  if (character === "\\" || character === "`") return `\\${character}`;
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

function refused(problem: string): JudgedName {
  return { kind: "refused", problem };
}
