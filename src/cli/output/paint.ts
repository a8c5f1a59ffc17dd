import { styleText } from "node:util";

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** Colours text where its stream is a terminal that has colours and NO_COLOR is not set. */
export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream, validateStream: true });
}

/** What steers a terminal: controls but for the line's end, in one byte or two, and what turns the text's direction. */
// oxlint-disable-next-line no-control-regex
const STEERING = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/** Text from outside with nothing in it that would steer the terminal; tabs become spaces. */
export function printable(text: string): string {
  return text.replaceAll("\t", "  ").replaceAll(STEERING, "\ufffd");
}

/** The same of a name: one line, or it could look like several. */
export function printableName(name: string): string {
  return printable(name).replaceAll("\n", "\ufffd");
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
