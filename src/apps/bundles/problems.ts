const MAX_SHOWN = 20;

/** An upload that is not taken, with the reasons: each a sentence in which names are shown safely. */
export class BundleError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[], cause?: unknown) {
    super(problems.join("\n"), cause === undefined ? {} : { cause });
    this.name = "BundleError";
    this.problems = problems;
  }
}

/** The problems of one upload: the first 20 are kept, the others counted. */
export class Problems {
  readonly #shown: string[] = [];
  #count = 0;

  add(problem: string): void {
    this.#count += 1;
    if (this.#shown.length < MAX_SHOWN) this.#shown.push(problem);
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** Throws them all as one `BundleError`, if there are any. */
  throwIfAny(): void {
    if (this.isEmpty) return;
    const more = this.#count - this.#shown.length;
    throw new BundleError(more === 0 ? this.#shown : [...this.#shown, `There are ${more} more problems.`]);
  }
}
