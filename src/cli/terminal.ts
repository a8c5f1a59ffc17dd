import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { CliFailure, usage } from "./failure.ts";
import { bytes, printableName } from "./output.ts";

const BAR_CELLS = 24;
const REDRAW_MS = 100;
const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** One line on stderr that changes while work is in progress; nothing at all if stderr is no terminal. */
export class Progress {
  readonly #isShown: boolean;
  readonly #startedAt = Date.now();
  #text: string;
  #timer: NodeJS.Timeout | undefined;

  constructor(text: string, isQuiet = false) {
    this.#text = text;
    this.#isShown = process.stderr.isTTY && !isQuiet;
    if (!this.#isShown) return;
    // Not at once: work that takes a moment would only flicker.
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS).unref();
  }

  set(text: string): void {
    this.#text = text;
  }

  /** Shows how many of so many bytes are done. */
  bar(doneBytes: number, ofBytes: number): void {
    this.share(ofBytes === 0 ? 1 : doneBytes / ofBytes, `${bytes(doneBytes)} of ${bytes(ofBytes)}`);
  }

  /** Shows which share of the work is done, from 0 to 1, and says more about it. */
  share(done: number, text: string): void {
    const share = Math.min(1, done);
    const full = Math.round(share * BAR_CELLS);
    const cells = "█".repeat(full) + "░".repeat(BAR_CELLS - full);
    this.set(`${cells} ${Math.floor(share * 100)}%  ${text}`);
  }

  end(): void {
    clearInterval(this.#timer);
    if (this.#isShown) process.stderr.write("\r\u{1b}[K");
  }

  #draw(): void {
    const frame = FRAMES[Math.floor((Date.now() - this.#startedAt) / REDRAW_MS) % FRAMES.length];
    const line = Array.from(`${frame} ${printableName(this.#text)}`);
    process.stderr.write(`\r\u{1b}[K${line.slice(0, (process.stderr.columns || 80) - 1).join("")}`);
  }
}

/** Shows progress for as long as work takes. */
export async function withProgress<Done>(
  text: string,
  isQuiet: boolean,
  work: (progress: Progress) => Promise<Done>,
): Promise<Done> {
  const progress = new Progress(text, isQuiet);
  try {
    return await work(progress);
  } finally {
    progress.end();
  }
}

/** Whether there is a terminal to ask a question. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks before something that cannot be undone; without a terminal it is refused unless `--yes` was given. */
export async function confirm(
  question: string,
  { yes = false }: { readonly yes?: boolean | undefined },
  signal: AbortSignal,
): Promise<void> {
  if (yes) return;
  const problem = `${question} This is not a terminal, so the question cannot be answered.`;
  if (!canAsk()) throw usage(problem, "add --yes if you are sure");
  const answer = await ask(`${printableName(question)} [y/N] `, false, signal);
  if (!/^y(?:es)?$/i.test(answer.trim())) throw new CliFailure("nothing was changed");
}

/** Asks for a secret, which is not shown while it is typed. */
export async function askSecret(question: string): Promise<string> {
  return await ask(question, true);
}

async function ask(question: string, isHidden: boolean, signal?: AbortSignal): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const output = isHidden ? { output: nowhere, terminal: true } : { output: process.stderr };
  const asking = createInterface({ input: process.stdin, ...output });
  try {
    // In raw mode Ctrl-C is a key and no signal.
    asking.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    if (isHidden) process.stderr.write(question);
    return await asking.question(isHidden ? "" : question, signal ? { signal } : {});
  } finally {
    asking.close();
    if (isHidden) process.stderr.write("\n");
  }
}

/** All of stdin; refused at a terminal, where the command would wait without a word. */
export async function readStdin(wantedBy: string): Promise<Buffer> {
  if (process.stdin.isTTY) throw usage(`${wantedBy} reads from a pipe, but stdin is a terminal`);
  return await buffer(process.stdin);
}
