/* oxlint-disable no-control-regex -- that is what they are about. */
/** Colours, cursor moves and titles that programs send to terminals. */
const ESCAPES = /\u001B(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001B]*(?:\u0007|\u001B\\)?|[@-Z\\-_])/g;
/** Everything else that a terminal would obey rather than show; tabs stay. */
const CONTROLS = /[\u0000-\u0008\u000A-\u001F\u007F-\u009F]/g;

/** A line without what was meant for a terminal. */
export function plainText(line: string): string {
  return line.replaceAll(ESCAPES, "").replaceAll(CONTROLS, "");
}
