import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeScratchDir } from "../scratch.ts";
import { type MillraceRunning, startMillrace } from "../subjects/millrace.ts";
import { FIXED_SETTINGS, fixedFunction } from "./settings.ts";

/** What each function does: 5 ms, and 0.2 ms for each item. */
const WORK = `import time


def sleep(items):
    time.sleep(0.005 + 0.0002 * items)
`;

const SCALING = "[scaling]\nmin_replicas = 1\nmax_replicas = 1\n";

/**
 * Starts a service with two apps: `single` has a function that is not batched, `batched` one that is, and one for each fixed
 * policy.
 */
export async function startOurs(): Promise<MillraceRunning> {
  const folder = makeScratchDir();
  const single = app(folder, "single", `${WORK}\n\ndef work(n: int):\n    sleep(1)\n    return n\n`, "");
  const names = ["work", ...FIXED_SETTINGS.map(fixedFunction)];
  const functions = names.map(
    (name) => `\n\ndef ${name}(n: "list[int]"):\n    sleep(len(n))\n    return n\n`,
  );
  const tables = FIXED_SETTINGS.map(
    (setting) =>
      `\n[batching.${fixedFunction(setting)}]\nmax_size = ${setting.size}\nmax_wait = "${setting.waitMs}ms"\n`,
  );
  const batched = app(folder, "batched", WORK + functions.join(""), `\n[batching.work]\n${tables.join("")}`);
  return await startMillrace(makeScratchDir(), [single, batched], {
    preload: join(import.meta.dirname, "fixed-release.ts"),
  });
}

function app(folder: string, name: string, code: string, tables: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  writeFileSync(join(path, "main.py"), code);
  writeFileSync(join(path, "millrace.toml"), `[deployment]\nname = "${name}"\n\n${SCALING}${tables}`);
  return path;
}
