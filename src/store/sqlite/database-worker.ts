import { Worker } from "node:worker_threads";

/** Starts a database thread. It loads its code at once, and opens no database until it gets a message. */
export function startWorker(script: URL): Worker {
  // No flags of the process: some, such as --input-type, keep a thread from starting.
  return new Worker(script, { execArgv: [] });
}

/** Ends a thread that has closed its database. */
export async function endWorker(worker: Worker): Promise<void> {
  await worker.terminate();
}
