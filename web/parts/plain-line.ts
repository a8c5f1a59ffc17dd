/** Colours, cursor moves and titles that programs send to terminals. */
// oxlint-disable-next-line no-control-regex -- that is what it is about.
const ESCAPES = /\u001B(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001B]*(?:\u0007|\u001B\\)?|[@-Z\\-_])/g;

/** A line without the sequences that were meant for a terminal; other controls stay, and the page shows them. */
export function plainLine(line: string): string {
  return line.replaceAll(ESCAPES, "").replace(/\r$/, "");
}
