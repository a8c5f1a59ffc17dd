import { bytes, printableName } from "./output.ts";
import { createInterface } from "node:readline/promises";
import { CliFailure, usage } from "./failure.ts";
import { Writable } from "node:stream";

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

/** Asks before something that cannot be undone; without a terminal it is refused unless `--yes` was given. */
export async function confirm(
  question: string,
  { yes = false }: { readonly yes?: boolean | undefined },
  signal: AbortSignal,
): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw usage(`${question} This is not a terminal, so nobody can answer.`, "add --yes if you are sure");
  }
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // In raw mode Ctrl-C is a key and no signal.
    asking.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    const answer = await asking.question(`${printableName(question)} [y/N] `, { signal });
    if (!/^y(?:es)?$/i.test(answer.trim())) throw new CliFailure("nothing was changed");
  } finally {
    asking.close();
  }
}

/** Whether somebody is there to be asked. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks for something that is not shown while it is typed. */
export async function askSecret(question: string): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const asking = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  try {
    // In raw mode Ctrl-C is a key and no signal.
    asking.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    process.stderr.write(question);
    return await asking.question("");
  } finally {
    asking.close();
    process.stderr.write("\n");
  }
}

/** Everything piped in, as text; refused at a terminal, where it would wait without telling anyone. */
export async function readStdin(wantedBy: string): Promise<string> {
  return (await readStdinBytes(wantedBy)).toString();
}

/** The same byte for byte. */
export async function readStdinBytes(wantedBy: string): Promise<Buffer> {
  if (process.stdin.isTTY) throw usage(`${wantedBy} reads from a pipe, but stdin is a terminal`);
  const pieces: Buffer[] = [];
  for await (const piece of process.stdin) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}
