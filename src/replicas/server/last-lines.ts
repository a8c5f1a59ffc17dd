const MAX_LINES = 30;
const MAX_CHARS = 500;

/** The last lines that a process printed. */
export class LastLines {
  readonly #lines: string[] = [];

  add(text: string): void {
    if (text.trim() === "") return;
    this.#lines.push(text.slice(0, MAX_CHARS));
    if (this.#lines.length > MAX_LINES) this.#lines.shift();
  }

  /** The very last one, to follow a sentence; nothing if there is none. */
  lastWords(): string {
    const last = this.#lines.at(-1);
    return last === undefined ? "." : `: ${last}`;
  }

  /** All of them, with that line below. */
  above(message: string): string {
    return [...this.#lines, message].join("\n");
  }
}
