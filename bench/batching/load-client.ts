import { join } from "node:path";
import { buildRequest } from "../load-job.ts";
import { startChild, withOpenFiles } from "../processes.ts";
import type { Running } from "../subject.ts";
import type { BatchingJob, BatchingResult } from "./batching-job.ts";

/** The bench's end of the load generator: one measurement at a time. */
export type BatchingLoad = {
  readonly pid: number;
  readonly measure: (
    server: Pick<Running, "url" | "headers">,
    body: string,
    pressure: Pick<BatchingJob, "arrivals" | "leadInMs" | "measureMs">,
  ) => Promise<BatchingResult>;
  readonly stop: () => Promise<void>;
};

/** Starts the load generator in its own process. */
export function startBatchingLoad(): BatchingLoad {
  const script = join(import.meta.dirname, "load.ts");
  const child = startChild(...withOpenFiles(process.execPath, [script]));
  return {
    pid: child.pid,
    measure: async (server, body, pressure) => {
      const url = new URL(server.url);
      const request = buildRequest(url, server.headers, body);
      const job: BatchingJob = { host: url.hostname, port: Number(url.port), request, ...pressure };
      child.send(JSON.stringify(job));
      return JSON.parse(await child.nextLine()) as BatchingResult;
    },
    stop: child.stop,
  };
}
