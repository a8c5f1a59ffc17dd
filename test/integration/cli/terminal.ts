import { MILLRACE } from "../../support/command-line.ts";
import { Terminal } from "../../support/terminal.ts";
import type { Client } from "./client.ts";

/** What is typed once something is on the screen. */
export type Step = { readonly when: RegExp; readonly type: string };

/** The command line at a terminal: how it ended, and the screen's lines with their colours, without what was overwritten. */
export async function atTerminal(
  { cwd, env }: Client,
  args: readonly string[],
  { steps = [], columns = 80 }: { readonly steps?: readonly Step[]; readonly columns?: number } = {},
): Promise<{ code: number | string; screen: string; raw: string }> {
  const terminal = new Terminal([MILLRACE, ...args], { cwd, env, columns });
  for (const { when, type } of steps) {
    await terminal.shows(when);
    terminal.type(type);
  }
  const code = await terminal.exited;
  const { raw } = terminal;
  // A line begins anew where the cursor goes back and the rest is cleared; other moves of the cursor say nothing.
  // oxlint-disable-next-line no-control-regex
  const lines = raw.split("\n").map((line) => line.replace(/\r$/, "").replace(/^[^\n]*\r\u{1b}\[K/u, ""));
  // oxlint-disable-next-line no-control-regex
  const screen = lines.join("\n").replaceAll(/\u{1b}\[\d*[GJK]/gu, "");
  return { code, screen, raw };
}
