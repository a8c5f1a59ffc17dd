import { styleText } from "node:util";
import { visibleText } from "../../model/visible-text.ts";

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** Colours text where its stream is a terminal that has colours and NO_COLOR is not set. */
export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream, validateStream: true });
}

/** Text from outside with nothing in it that a terminal would obey or hide; tabs become spaces. */
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
export function printableCell(cell: string): string {
  return cell
    .split(COLOUR)
    .map((part, index) => (index % 2 === 1 ? part : printableName(part)))
    .join("");
}

/** The style of a status word: what is good, bad, or still under way. */
export function paintStatus(status: string): string {
  if (/^(?:success|ready|delivered|RUNNING)$/.test(status)) return paint("green", status);
  if (/fail|error|timeout|FAILED/.test(status)) return paint("red", status);
  if (/^(?:running|queued|pending|building|initializing|deploying|PENDING)$/.test(status)) {
    return paint("yellow", status);
  }
  return paint("dim", status);
}
