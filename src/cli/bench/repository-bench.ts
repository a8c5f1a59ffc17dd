import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { PACKAGE_DIR } from "../../config/package-files.ts";
import { usage } from "../failure.ts";

const BENCH = path.join(PACKAGE_DIR, "bench", "bench.ts");

/** Runs one of the repository's own benches, which are in a clone alone; resolves with its exit code. */
export async function runRepositoryBench(words: readonly string[], isJson: boolean): Promise<number> {
  if (!existsSync(BENCH)) {
    throw usage(
      `the bench ${JSON.stringify(words[0])} only works in a clone of the repository`,
      "millrace bench without an argument measures the running service",
    );
  }
  const args = [...process.execArgv, BENCH, ...words, ...(isJson ? ["--json"] : [])];
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  // Ctrl-C reaches it as well; it clears up, and we wait for that.
  const ignore = (): void => {};
  process.on("SIGINT", ignore);
  const forward = (): boolean => child.kill("SIGTERM");
  process.on("SIGTERM", forward);
  try {
    return await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => resolve(code ?? 1));
    });
  } finally {
    process.off("SIGINT", ignore);
    process.off("SIGTERM", forward);
  }
}
