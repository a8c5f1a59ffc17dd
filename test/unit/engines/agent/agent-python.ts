import { execFileSync } from "node:child_process";
import path from "node:path";
import { REPOSITORY } from "../../../support/source-files.ts";

const START = `import json, os, sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})\n`;

/** What a program prints, as JSON, that can import the agent's own modules. */
export function agentPython(code: string, ...args: readonly string[]): unknown {
  return JSON.parse(execFileSync("python3", ["-I", "-S", "-c", START + code, ...args], { encoding: "utf8" }));
}
