import type { Reader } from "./readers.ts";
import { showKey, showSecret, showValue } from "./show.ts";

// A hostile file can hold ten thousand faults; nobody reads more than these.
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

  /** A name nobody knows, with the one it may have meant. */
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

  /** Everything odd found so far. */
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
