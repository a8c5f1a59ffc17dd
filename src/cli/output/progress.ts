import { bytes } from "./amounts.ts";
import { printableName } from "./paint.ts";

const BAR_CELLS = 24;
const REDRAW_MS = 100;
const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** One line on stderr that changes while something is under way; nothing at all where that is no terminal. */
export class Progress {
  readonly #isShown: boolean;
  readonly #startedAt = Date.now();
  #text: string;
  #timer: NodeJS.Timeout | undefined;

  constructor(text: string, isQuiet = false) {
    this.#text = text;
    this.#isShown = process.stderr.isTTY && !isQuiet;
    if (!this.#isShown) return;
    // Not at once: what is done in a moment would only flicker.
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS).unref();
  }

  /** Says something else from now on. */
  set(text: string): void {
    this.#text = text;
  }

  /** Shows how much of so many bytes is done. */
  bar(doneBytes: number, ofBytes: number): void {
    const share = ofBytes === 0 ? 1 : Math.min(1, doneBytes / ofBytes);
    const full = Math.round(share * BAR_CELLS);
    const cells = "█".repeat(full) + "░".repeat(BAR_CELLS - full);
    this.set(`${cells} ${Math.floor(share * 100)}%  ${bytes(doneBytes)} of ${bytes(ofBytes)}`);
  }

  /** Takes the line away; what is printed next stands in its place. */
  end(): void {
    clearInterval(this.#timer);
    this.clear();
  }

  /** Makes room for a line above. */
  clear(): void {
    if (this.#isShown) process.stderr.write("\r\u{1b}[K");
  }

  #draw(): void {
    const frame = FRAMES[Math.floor((Date.now() - this.#startedAt) / REDRAW_MS) % FRAMES.length];
    const line = Array.from(`${frame} ${printableName(this.#text)}`).slice(
      0,
      (process.stderr.columns || 80) - 1,
    );
    process.stderr.write(`\r\u{1b}[K${line.join("")}`);
  }
}
