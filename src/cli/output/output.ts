import { paint, printable } from "./paint.ts";
import { pastable } from "./program-name.ts";

/** Where a command's words go: results to stdout; on a terminal, what a person wants to know besides, to stderr. */
export class Output {
  readonly isJson: boolean;
  readonly #isTerminal = process.stderr.isTTY;

  constructor({ json = false }: { readonly json?: boolean | undefined }) {
    this.isJson = json;
  }

  /** Prints a result: the document with `--json`, else the text, which ends its own lines. */
  show(document: unknown, text: () => string): void {
    process.stdout.write(this.isJson ? `${JSON.stringify(document)}\n` : text());
  }

  /** Prints one of many results, as they come. */
  line(document: unknown, text: string): void {
    process.stdout.write(`${this.isJson ? JSON.stringify(document) : text}\n`);
  }

  /** Tells a person at a terminal something beside the result. */
  note(text: string): void {
    if (!this.#isTerminal || this.isJson) return;
    process.stderr.write(`${paint("dim", pastable(printable(text)), process.stderr)}\n`);
  }

  /** Tells whoever reads that something is odd. */
  warn(text: string): void {
    if (!this.isJson)
      process.stderr.write(`${paint("yellow", "warning:", process.stderr)} ${printable(text)}\n`);
  }
}
