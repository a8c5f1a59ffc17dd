import type { LogStream } from "../../model/log-line.ts";

const ERROR = /^error\b/i;
/** What uv draws before its explanations. */
const DECORATION = /^[\s×╰├│─▶]+/;
const MAX_LAST_WORDS = 4;
const MAX_LAST_CHARS = 1_000;

/**
 * Why a program failed, by what it printed: the last error it told, with the lines that explain it, or else its last
 * line. Of two streams it is never sure which line came first, so each is judged by itself, and stderr goes first.
 */
export class LastWords {
  readonly #heard = { stderr: new Heard(), stdout: new Heard() };

  take(text: string, stream: LogStream): void {
    const line = text.replace(DECORATION, "").trim();
    if (line !== "") this.#heard[stream].take(line);
  }

  /** On one line. */
  get text(): string {
    const { stderr, stdout } = this.#heard;
    const told = stdout.hasError && !stderr.hasError ? stdout : stderr;
    return (told.words.length > 0 ? told : stdout).words.join(" ").slice(0, MAX_LAST_CHARS);
  }
}

class Heard {
  words: string[] = [];
  hasError = false;

  take(line: string): void {
    const isError = ERROR.test(line);
    if (isError || !this.hasError) this.words = [line];
    else if (this.words.length < MAX_LAST_WORDS) this.words.push(line);
    this.hasError ||= isError;
  }
}
