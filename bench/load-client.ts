import { join } from "node:path";
import { buildRequest, type LoadJob, type LoadResult } from "./load-job.ts";
import { startChild } from "./processes.ts";
import { CALL_BODY, type Running } from "./subject.ts";

/** How hard and how long one subject is called. */
type Pressure = Pick<LoadJob, "connections" | "leadInMs" | "measureMs">;

/** The bench's end of the load generator: one measurement at a time. */
export type LoadGenerator = {
  readonly pid: number;
  readonly measure: (target: Running, pressure: Pressure) => Promise<LoadResult>;
  readonly stop: () => Promise<void>;
};

/** Starts the load generator in its own process. */
export function startLoadGenerator(): LoadGenerator {
  const child = startChild(process.execPath, [join(import.meta.dirname, "load.ts")]);
  return {
    pid: child.pid,
    measure: async (target, pressure) => {
      const url = new URL(target.url);
      const request = buildRequest(url, target.headers, CALL_BODY);
      const job: LoadJob = { host: url.hostname, port: Number(url.port), request, ...pressure };
      child.send(JSON.stringify(job));
      return JSON.parse(await child.nextLine()) as LoadResult;
    },
    stop: child.stop,
  };
}
