import { join } from "node:path";
import { buildRequest } from "./load-job.ts";
import { startChild, withOpenFiles } from "./processes.ts";
import { cpuMsOf, descendantsOf, openFilesLimitOf, residentBytesOf } from "./proc.ts";
import type { StreamJob, StreamResult } from "./stream-job.ts";
import type { StreamServer } from "./stream-subjects.ts";

/** What is asked of a server, and for how long it is watched. */
export type StreamPressure = Pick<StreamJob, "streams" | "window" | "endWithinMs"> & {
  readonly body: string;
  readonly isGzip: boolean;
};

/** A round of one subject. */
export type StreamRound = StreamResult & {
  /** CPU time inside the window: the process that speaks HTTP, and all below it. */
  readonly gatewayCpuMs: number;
  readonly belowCpuMs: number;
  /** What the memory of the process that speaks HTTP grew by, from before the first connection. */
  readonly gatewayGrowthBytes: number;
};

/** The bench's end of the stream reader: one measurement at a time. */
export type StreamClient = {
  readonly read: (server: StreamServer, pressure: StreamPressure) => Promise<StreamRound>;
  readonly openFilesLimit: () => number;
  readonly stop: () => Promise<void>;
};

/**
 * A gunzip per stream would take more of the machine than the servers do, so that one stream in ten is decoded
 * and the others are only read.
 */
const GZIP_DECODE_EVERY = 10;

/** Starts the reader in its own process. */
export function startStreamClient(): StreamClient {
  const script = join(import.meta.dirname, "stream-load.ts");
  const child = startChild(...withOpenFiles(process.execPath, [script]));
  return {
    read: async (server, { body, isGzip, ...rest }) => {
      const url = new URL(server.url);
      const headers = { ...server.headers, ...(isGzip && { "Accept-Encoding": "gzip" }) };
      const job: StreamJob = {
        ...rest,
        host: url.hostname,
        port: Number(url.port),
        request: buildRequest(url, headers, body),
        decodeEvery: isGzip ? GZIP_DECODE_EVERY : 1,
        watch: [server.pid, ...descendantsOf(server.pid)],
      };
      const bytesBefore = residentBytesOf(server.pid);
      child.send(JSON.stringify(job));
      const result = JSON.parse(await child.nextLine()) as StreamResult;
      const [gatewayCpuMs = 0, ...below] = result.cpuMs;
      return {
        ...result,
        gatewayCpuMs,
        belowCpuMs: below.reduce((sum, ms) => sum + ms, 0),
        gatewayGrowthBytes: (result.residentBytes[0] ?? 0) - bytesBefore,
      };
    },
    openFilesLimit: () => openFilesLimitOf(child.pid),
    stop: child.stop,
  };
}

/** Resolves when a server does nothing any more: what ended streams left behind is no part of the next round. */
export async function quietEndOf(server: StreamServer): Promise<void> {
  const busyMs = () => [server.pid, ...descendantsOf(server.pid)].reduce((sum, pid) => sum + cpuMsOf(pid), 0);
  const deadline = performance.now() + QUIET_WITHIN_MS;
  let before = busyMs();
  while (performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    const now = busyMs();
    if (now - before < QUIET_MS / 10) return;
    before = now;
  }
}

const QUIET_MS = 150;
const QUIET_WITHIN_MS = 2_000;
