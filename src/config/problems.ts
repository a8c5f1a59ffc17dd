import type { Reader } from "./readers.ts";

// A hostile file can hold ten thousand faults.
const MAX_LISTED = 100;
// A suggestion costs a comparison with every known name.
const MAX_SUGGESTED = 20;

/** A configuration that cannot be used; `problems` names every fault found, one sentence each. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(subject: string, problems: readonly string[]) {
    const count = problems.length === 1 ? "one problem" : `${problems.length} problems`;
    super(`${subject} has ${count}:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** Collects everything that is wrong or odd, so that all of it is reported at once. */
export class Problems {
  readonly #problems: string[] = [];
  /** Each once: the same key may stand in the payload's text and in the file of the zip. */
  readonly #warnings = new Set<string>();
  #unlistedProblems = 0;
  #unlistedWarnings = 0;

  /** A fault that makes the configuration unusable. */
  add(problem: string): void {
    if (this.#problems.length < MAX_LISTED) this.#problems.push(problem);
    else this.#unlistedProblems += 1;
  }

  /** Something odd that does not stop anyone. */
  warn(warning: string): void {
    if (this.#warnings.size < MAX_LISTED) this.#warnings.add(warning);
    else if (!this.#warnings.has(warning)) this.#unlistedWarnings += 1;
  }

  /** A value outside what its key takes. */
  misfit(key: string, expects: string, raw: unknown, show = showValue): void {
    this.add(`${key} must be ${expects}, got ${show(raw)}`);
  }

  /** An unknown name, with the known one that it may have meant. */
  unknown(key: string, suggest: () => string | null): void {
    const meant = this.#warnings.size < MAX_SUGGESTED ? suggest() : null;
    this.warn(`${showKey(key)} is not a known key${meant === null ? "" : `; did you mean ${meant}?`}`);
  }

  /** Reads one value; the fault, if there is one, is on the list. */
  read<T>(reader: Reader<T>, key: string, raw: unknown): T | undefined {
    const value = reader.read(raw);
    if (value === undefined) this.misfit(key, reader.expects, raw, reader.secret ? showSecret : showValue);
    return value;
  }

  get warnings(): string[] {
    const rest = this.#unlistedWarnings;
    return rest === 0 ? [...this.#warnings] : [...this.#warnings, `and ${rest} more warnings`];
  }

  /** Throws one ConfigError with every problem found so far, if there is any. */
  throwIfAny(subject: string): void {
    if (this.#problems.length === 0) return;
    const rest = this.#unlistedProblems;
    throw new ConfigError(subject, rest === 0 ? this.#problems : [...this.#problems, `and ${rest} more`]);
  }
}

const MAX_SHOWN_CHARS = 80;
const MAX_ITEMS = 10;
const SCHEME = /^[a-z][a-z0-9+.-]{0,30}:\/\//i;

/** A raw value as a message may show it: on one line, at most 80 characters, without credentials. */
export function showValue(value: unknown): string {
  return cut(render(value, 0));
}

/** A key as a message may show it: plain where it is plain, quoted and cut where it is not. */
export function showKey(key: string): string {
  return /^[\w.-]{1,80}$/.test(key) ? key : cut(JSON.stringify(key.slice(0, MAX_SHOWN_CHARS + 1)));
}

/** All that a message may tell of a value that is itself a secret: the scheme of an address. */
export function showSecret(value: unknown): string {
  const scheme = typeof value === "string" ? SCHEME.exec(value)?.[0] : undefined;
  return scheme === undefined ? "a value that is not shown" : cut(JSON.stringify(`${scheme}***`));
}

/** Everything in an address that may be a password is replaced by `***`. */
function maskCredentials(text: string): string {
  const scheme = SCHEME.exec(text)?.[0];
  // To the last @: a password that was not encoded may hold any other character, @ included.
  if (scheme === undefined) return text.replace(/^.*:.*@/s, "***@");
  const address = text.slice(scheme.length);
  const host = address.slice(address.lastIndexOf("@") + 1);
  const path = host.replace(/[?#].*$/s, "?***");
  return scheme + (host === address ? "" : "***@") + path;
}

function render(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      // Cut before quoting: an upload may hold megabytes in one text.
      return JSON.stringify(maskCredentials(value.slice(0, 4096)));
    case "number":
    case "bigint":
    case "boolean":
      return String(value);
    case "object":
      if (value === null) return "null";
      if (value instanceof Date) return "a date";
      if (!Array.isArray(value)) return "a table";
      if (depth > 0) return "a list";
      return `[${value
        .slice(0, MAX_ITEMS)
        .map((item) => render(item, depth + 1))
        .join(", ")}${value.length > MAX_ITEMS ? ", …" : ""}]`;
    default:
      return typeof value;
  }
}

function cut(text: string): string {
  return text.length <= MAX_SHOWN_CHARS ? text : `${text.slice(0, MAX_SHOWN_CHARS - 1)}…`;
}

// Longer words are no spelling of anything known, and the work per comparison grows with the square.
const MAX_WORD_CHARS = 64;

/** How many single-character edits lead from one word to the other. */
export function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 0; i < from.length; i++) {
    const current = [i + 1];
    for (let j = 0; j < to.length; j++) {
      const replaced = previous[j]! + (from[i] === to[j] ? 0 : 1);
      current.push(Math.min(replaced, previous[j + 1]! + 1, current[j]! + 1));
    }
    previous = current;
  }
  return previous[to.length]!;
}

/** The known word that `word` most likely meant; null when none is close. */
export function nearest(word: string, known: Iterable<string>): string | null {
  if (word.length > MAX_WORD_CHARS) return null;
  const given = word.toLowerCase();
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(given.length / 3)) + 1;
  for (const candidate of known) {
    // So many letters at least are one's and not the other's.
    if (Math.abs(candidate.length - given.length) >= bestDistance) continue;
    const distance = editDistance(given, candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}
