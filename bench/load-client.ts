import { join } from "node:path";
import { buildRequest, type LoadJob, type LoadResult } from "./load-job.ts";
import { startChild } from "./processes.ts";
import { CALL_BODY, type Running } from "./subject.ts";

/** How hard and how long one subject is called. */
type Pressure = Pick<LoadJob, "connections" | "leadInMs" | "measureMs">;

/** Where calls go. */
export type Target = Pick<Running, "url" | "headers"> & {
  /** Absent: the usual one. */
  readonly body?: string;
};

/** The bench's end of the load generator: one measurement at a time. */
export type LoadGenerator = {
  readonly pid: number;
  /** Of several targets, which are of one server, each connection has one. */
  readonly measure: (targets: Target | readonly Target[], pressure: Pressure) => Promise<LoadResult>;
  readonly stop: () => Promise<void>;
};

/** Starts the load generator in its own process. */
export function startLoadGenerator(): LoadGenerator {
  const child = startChild(process.execPath, [join(import.meta.dirname, "load.ts")]);
  return {
    pid: child.pid,
    measure: async (targets, pressure) => {
      const all = [targets].flat();
      const { hostname: host, port } = new URL(all[0]?.url ?? "");
      const requests = all.map(({ url, headers, body = CALL_BODY }) =>
        buildRequest(new URL(url), headers, body),
      );
      const job: LoadJob = { host, port: Number(port), requests, ...pressure };
      child.send(JSON.stringify(job));
      return JSON.parse(await child.nextLine()) as LoadResult;
    },
    stop: child.stop,
  };
}
