import { Worker } from "node:worker_threads";

// Takes the place of `src/store/sqlite/database-worker.ts` (vitest.config.ts). A thousand databases are opened in the
// tests, and to start a thread costs more than most of them are used: one that has closed its database opens another.

const scripts = new WeakMap<Worker, string>();
let idle: Worker[] = [];

export function startWorker(script: URL): Worker {
  const kept = idle.find((worker) => scripts.get(worker) === script.href);
  if (kept) {
    forget(kept);
    kept.removeAllListeners("exit");
    kept.ref();
    return kept;
  }
  const worker = new Worker(script, { execArgv: [] });
  scripts.set(worker, script.href);
  return worker;
}

export async function endWorker(worker: Worker): Promise<void> {
  idle.push(worker);
  worker.on("exit", () => forget(worker));
  // It must not keep the process.
  worker.unref();
}

function forget(worker: Worker): void {
  idle = idle.filter((other) => other !== worker);
}
