import { stripVTControlCharacters, styleText } from "node:util";
import { visibleText } from "../model/visible-text.ts";
import { pastable } from "./program-name.ts";

/** The columns of a table by their headings, each with what it shows of an entry. */
export type Columns<Entry> = Readonly<Record<string, (entry: Entry) => string>>;

/** How to print, and the options that a hint has to repeat. */
type Flags = Parameters<typeof pastable>[1] & { readonly json?: boolean | undefined };

/** Where a command's words go: results to stdout; on a terminal, what a person wants to know besides, to stderr. */
export class Output {
  readonly isJson: boolean;
  readonly #isTerminal = process.stderr.isTTY;

  readonly #flags: Flags;

  constructor(flags: Flags) {
    this.isJson = flags.json ?? false;
    this.#flags = flags;
  }

  /** Prints a result: the document with `--json`, else the text, which ends its own lines. */
  show(document: unknown, text: () => string): void {
    process.stdout.write(this.isJson ? `${JSON.stringify(document)}\n` : text());
  }

  /** Prints entries as a table, or as they are with `--json`. */
  list<Entry>(entries: readonly Entry[], columns: Columns<Entry>): void {
    this.show(entries, () => tableOf(entries, columns));
  }

  /** Prints one of many results, as they come. */
  line(document: unknown, text: string): void {
    process.stdout.write(`${this.isJson ? JSON.stringify(document) : text}\n`);
  }

  /** Tells a person at a terminal something beside the result. */
  note(text: string): void {
    if (!this.#isTerminal || this.isJson) return;
    process.stderr.write(`${paint("dim", pastable(printable(text), this.#flags), process.stderr)}\n`);
  }

  warn(text: string): void {
    if (!this.isJson)
      process.stderr.write(`${paint("yellow", "warning:", process.stderr)} ${printable(text)}\n`);
  }
}

const GAP = "  ";

/** Rows with aligned columns under dim headings; on a terminal each line is cut to its width. Cells cannot steer it. */
export function tableOf<Entry>(
  entries: readonly Entry[],
  columns: Columns<Entry>,
  width: number | undefined = process.stdout.isTTY ? process.stdout.columns : undefined,
): string {
  const headings = Object.keys(columns);
  const rows = entries.map((entry) => Object.values(columns).map((cell) => printableCell(cell(entry))));
  const widths = headings.map((heading, index) =>
    Math.max(heading.length, ...rows.map((row) => lengthOf(row[index] ?? ""))),
  );
  const line = (cells: readonly string[]): string => {
    const padded = cells.map((cell, index) => {
      const isLast = index === cells.length - 1;
      return isLast ? cell : cell + " ".repeat((widths[index] ?? 0) - lengthOf(cell));
    });
    return cut(padded.join(GAP).trimEnd(), width);
  };
  return [line(headings.map((heading) => paint("dim", heading))), ...rows.map(line)]
    .map((text) => `${text}\n`)
    .join("");
}

/** A field's name and value; null leaves it out. */
type Field = readonly [name: string, value: string] | null;

/** Names and values under each other, the values aligned. */
export function fields(given: readonly Field[]): string {
  const pairs = given.filter((pair) => pair !== null);
  const width = Math.max(...pairs.map(([name]) => name.length));
  // Further lines of a value are indented, so that they cannot look like fields.
  const next = `\n${" ".repeat(width)}${GAP}`;
  const line = (name: string, value: string): string =>
    `${paint("dim", name.padEnd(width))}${GAP}${value.split("\n").map(printableCell).join(next)}\n`;
  return pairs.map(([name, value]) => line(name, value)).join("");
}

/** The columns that a text takes on the screen, without its colours. */
function lengthOf(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length;
}

function cut(text: string, width: number | undefined): string {
  if (width === undefined || lengthOf(text) <= width) return text;
  // A cut may fall between a colour and its end: without colours nothing is left switched on.
  return `${Array.from(stripVTControlCharacters(text))
    .slice(0, width - 1)
    .join("")}…`;
}

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** Colours text where its stream is a terminal that has colours and NO_COLOR is not set. */
export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream, validateStream: true });
}

/** Text from outside without characters that steer a terminal or are invisible; tabs become spaces. */
export function printable(text: string): string {
  return visibleText(text.replaceAll("\t", "  "), "lines");
}

/** The same for a name, which must not look like several lines. */
export function printableName(name: string): string {
  return visibleText(name);
}

/** What an app answered: exactly as it is for a file or a pipe, `printable` on a terminal. */
export function answerText(text: string): string {
  return process.stdout.isTTY ? printable(text) : text;
}

/** Matches the codes that `paint` writes. */
// oxlint-disable-next-line no-control-regex -- colours are made of them.
const COLOUR = /(\x1b\[\d\d?m)/;

/** One line of a table: colours stay, everything else is treated as a name. */
function printableCell(cell: string): string {
  return cell
    .split(COLOUR)
    .map((part, index) => (index % 2 === 1 ? part : printableName(part)))
    .join("");
}

/** Colours a status word: green for good, red for bad, yellow while under way. */
export function paintStatus(status: string): string {
  if (/^(?:success|ready|delivered|open|RUNNING)$/.test(status)) return paint("green", status);
  if (/fail|error|timeout|FAILED/.test(status)) return paint("red", status);
  if (/^(?:running|queued|paused|draining|pending|building|initializing|deploying|PENDING)$/.test(status)) {
    return paint("yellow", status);
  }
  return paint("dim", status);
}

const UNITS = { d: 86_400, h: 3_600, min: 60, s: 1 };

/** How long ago a time was, or how far ahead it is, in one unit; `–` for none. */
export function relative(time: string | null | undefined, nowMs = Date.now()): string {
  if (!time) return "–";
  const seconds = Math.round((nowMs - Date.parse(time)) / 1000);
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const [unit, step] = Object.entries(UNITS).find(([, step]) => size >= step) ?? ["s", 1];
  const amount = `${Math.floor(size / step)} ${unit}`;
  return seconds > 0 ? `${amount} ago` : `in ${amount}`;
}

/** A duration as people read it: `0.4 ms`, `310 ms`, `4.2 s`, `3 min 10 s`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1_000) return `${ms.toFixed(ms < 1 ? 2 : ms < 10 ? 1 : 0)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 3_600), "h"],
    [Math.floor((seconds % 3_600) / 60), "min"],
    [seconds % 60, "s"],
  ] as const;
  const from = parts.findIndex(([amount]) => amount > 0);
  // Two units are exact enough, and zeros are left out.
  return parts
    .slice(from, from + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

/** An amount of bytes as people read it: `312 B`, `4.0 KB`, `1.5 GB`. */
export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [value, unit] = [count, 0];
  while (value >= 1_000 && unit < units.length - 1) [value, unit] = [value / 1_000, unit + 1];
  return unit === 0 ? `${value} B` : `${value.toFixed(1)} ${units[unit]}`;
}
