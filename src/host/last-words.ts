const ERROR = /^error\b/i;
/** What uv draws before its explanations. */
const DECORATION = /^[\s×╰├│─▶]+/;
const MAX_LAST_WORDS = 4;
const MAX_LAST_CHARS = 1_000;

/** Why a program failed, by what it printed: the last error it told, with the lines that explain it, or else its last line. */
export class LastWords {
  #words: string[] = [];
  #hasError = false;

  /** A line, of whichever stream. */
  take(text: string): void {
    const line = text.replace(DECORATION, "").trim();
    if (line === "") return;
    const isError = ERROR.test(line);
    if (isError || !this.#hasError) this.#words = [line];
    else if (this.#words.length < MAX_LAST_WORDS) this.#words.push(line);
    this.#hasError ||= isError;
  }

  /** On one line. */
  get text(): string {
    return this.#words.join(" ").slice(0, MAX_LAST_CHARS);
  }
}
