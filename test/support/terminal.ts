import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { onTestFinished } from "vitest";
import { Condition } from "../../src/kit/concurrency.ts";
import { explains } from "./explain.ts";
import { until } from "./until.ts";
import { REPOSITORY } from "./source-files.ts";

const RELAY = fileURLToPath(new URL("./terminal.py", import.meta.url));

/** Ctrl-C, as a keyboard sends it. */
export const CTRL_C = "\u{3}";

export type TerminalOptions = {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly columns?: number;
};

/** A program in a real terminal; whatever runs there gets a hang-up when the test is over. */
export class Terminal {
  /** All that was sent to the screen, as it was sent. */
  raw = "";
  /** Resolves with the exit code. */
  readonly exited: Promise<number | string>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #news = new Condition();
  #seen = 0;

  constructor(argv: readonly string[], { cwd, env, columns = 80 }: TerminalOptions) {
    const { PATH = "", HOME = "/" } = process.env;
    const cache = path.join(REPOSITORY, ".cache", "node");
    this.#child = spawn("python3", [RELAY, String(columns), ...argv], {
      cwd,
      env: { PATH, HOME, NODE_COMPILE_CACHE: cache, TERM: "xterm-256color", ...env },
    });
    const show = (text: string): void => {
      this.raw += text;
      this.#news.notify();
    };
    this.#child.stdout.setEncoding("utf8").on("data", show);
    this.#child.stderr.setEncoding("utf8").on("data", show);
    const silence = explains(() => `${argv.join(" ")} shows:\n${this.screen.slice(-8_000)}`);
    this.#child.stdin.on("error", () => {}); // It has ended; its exit tells.
    this.exited = new Promise((resolve, reject) => {
      this.#child.once("error", reject);
      this.#child.once("close", (code, signal) => {
        resolve(signal ?? code ?? "no code");
        this.#news.notify();
      });
    });
    onTestFinished(async () => {
      silence();
      this.#child.kill("SIGKILL");
      await this.exited;
    });
  }

  /** Presses keys. */
  type(text: string): void {
    this.#child.stdin.write(text);
  }

  /** Waits for something after what was waited for before, colours not counted; resolves with the match. */
  async shows(pattern: RegExp): Promise<RegExpExecArray> {
    const find = (): RegExpExecArray | null =>
      pattern.exec(stripVTControlCharacters(this.raw).slice(this.#seen));
    const isOver = (): boolean => this.#child.exitCode !== null;
    await until(String(pattern), () => find() !== null || isOver(), this.#news);
    const found = find();
    if (!found) throw new Error(`never shown: ${pattern}\n${this.screen}`);
    this.#seen += found.index + found[0].length;
    return found;
  }

  /** The lines that are left when all of it has been drawn, without colours. */
  get screen(): string {
    return drawn(this.raw);
  }
}

/** The cursor goes to the line's begin and what stands there is cleared: by our progress, and by Node's prompt. */
// oxlint-disable-next-line no-control-regex
const ANEW = /^[^\n]*(?:\r\u{1b}\[K|\u{1b}\[1G\u{1b}\[0J)/u;

/** What is left of a text when a terminal has drawn it, without colours. */
function drawn(raw: string): string {
  const lines = raw.replaceAll("\r\n", "\n").split("\n");
  return lines.map((line) => stripVTControlCharacters(line.replace(ANEW, "")).trimEnd()).join("\n");
}
