import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { type CommandOptions, run } from "./command-line.ts";
import { REPOSITORY } from "./source-files.ts";

/** The commands in a document's shell blocks, each with the lines that continue it. */
export function commandsOf(file: string): string[] {
  const text = readFileSync(path.join(REPOSITORY, file), "utf8");
  const blocks = [...text.matchAll(/```sh\n([^]*?)```/g)].map(([, block = ""]) => block);
  return blocks.flatMap((block) => block.replaceAll("\\\n", " ").trim().split("\n"));
}

/** Does what somebody does who tries a document's command, without being asked anything; gives what it printed. */
export async function tryCommand(command: string, options: CommandOptions): Promise<string> {
  const asked = command.replace(/^(millrace deploy \S+)$/, "$1 --yes");
  const { code, stdout, stderr } = await run("sh", ["-c", asked], options);
  expect([command, code, code === 0 ? "" : stderr]).toEqual([command, 0, ""]);
  return stdout;
}
