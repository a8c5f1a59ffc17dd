import { statSync } from "node:fs";
import { MILLRACE, run } from "../../support/command-line.ts";

/** Who may do what with a file, as `chmod` takes it. */
export const modeOf = (file: string): string => (statSync(file).mode & 0o777).toString(8);

/** Runs a command that must succeed, on a data directory; what it printed as JSON. */
export async function millrace(args: readonly string[], env: Record<string, string>) {
  const { code, stdout, stderr } = await run(MILLRACE, args, { env });
  if (code !== 0) throw new Error(`${args[0]} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as Record<string, unknown>;
}
