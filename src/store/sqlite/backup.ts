import { closeSync, openSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { threadScript } from "../../config/package-files.ts";
import type { DatabaseReport } from "../upkeep/report.ts";

/** Work on a whole database; `isAlone` says that no service has it open. */
export type UpkeepTask = { readonly path: string; readonly isAlone: boolean } & (
  | { readonly kind: "copy"; readonly to: string }
  | { readonly kind: "inspect" }
);

/** The first page of the database was read. */
export const BEGUN = "begun";

/** From the thread: that it has begun, then the result. */
export type UpkeepMessage = { readonly result: unknown };

/** Copies the database as it is at one moment into a new file that only its owner reads. */
export async function copySqlite(path: string, to: string, isAlone: boolean): Promise<void> {
  // SQLite fills an empty file, but would create one that all users may read.
  closeSync(openSync(to, "wx", 0o600));
  await perform({ kind: "copy", path, to, isAlone });
}

/** Reads the whole database and reports its faults; calls `onBegun` after the first page. */
export async function inspectSqlite(path: string, isAlone: boolean, onBegun: () => void) {
  return (await perform({ kind: "inspect", path, isAlone }, onBegun)) as DatabaseReport;
}

async function perform(task: UpkeepTask, onBegun: () => void = () => {}): Promise<unknown> {
  const script = threadScript("store/sqlite/upkeep-thread");
  return await new Promise((resolve, reject) => {
    const worker = new Worker(script, { workerData: task, execArgv: [] });
    worker.on("message", ({ result }: UpkeepMessage) => {
      if (result === BEGUN) onBegun();
      else resolve(result);
    });
    worker.once("error", reject);
    worker.once("exit", () => reject(new Error("the database thread ended without an answer")));
  });
}
