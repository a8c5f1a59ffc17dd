/** Somebody who acts on changes, once at a time, and until it works: what comes meanwhile, or failed, is told together. */
export class ChangeListener {
  readonly #hear: (subjects: readonly string[]) => void | Promise<void>;
  readonly #onFailure: (error: unknown) => void;
  /** What it has not acted on yet. */
  readonly #owed = new Set<string>();
  #isBusy = false;

  constructor(
    hear: (subjects: readonly string[]) => void | Promise<void>,
    onFailure: (error: unknown) => void,
  ) {
    this.#hear = hear;
    this.#onFailure = onFailure;
  }

  /** Tells of these, and of what failed before; nobody waits for it. */
  tell(subjects: readonly string[]): void {
    for (const subject of subjects) this.#owed.add(subject);
    if (!this.#isBusy) void this.#work();
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    while (this.#owed.size > 0) {
      const told = [...this.#owed];
      this.#owed.clear();
      try {
        await this.#hear(told);
      } catch (error) {
        for (const subject of told) this.#owed.add(subject);
        this.#onFailure(error);
        break;
      }
    }
    this.#isBusy = false;
  }
}
