import { join } from "node:path";
import { startChild } from "./processes.ts";
import { makeScratchDir } from "./scratch.ts";
import type { Running } from "./subject.ts";
import { startFastapi } from "./subjects/fastapi.ts";
import { type MillraceOptions, startMillrace } from "./subjects/millrace.ts";

/** A server of streams that is up. */
export type StreamServer = Running & {
  /** The process that speaks HTTP. */
  readonly pid: number;
};

/** One thing to measure. */
export type StreamSubject = {
  readonly id:
    | "floor"
    | "passthrough"
    | "millrace"
    | "fastapi"
    | "fastapi generator"
    | "fastapi async generator";
  readonly name: string;
  /** Starts it ready for calls; throws `Skipped` where this machine cannot have it. */
  readonly start: (profileDir: string | undefined) => Promise<StreamServer>;
};

/** An app of `bench/apps` on the stream floor. */
export function floorOf(app: string): StreamSubject {
  return {
    id: "floor",
    name: "the floor",
    start: async () => {
      const script = join(import.meta.dirname, "floor/stream-gateway.ts");
      const child = startChild(process.execPath, [script, app]);
      const { url } = JSON.parse(await child.nextLine()) as { url: string };
      return { url: `${url}/run`, headers: {}, pid: child.pid, stop: child.stop };
    },
  };
}

/** An app of `bench/apps` on the service. */
export function millraceOf(app: string, options: MillraceOptions = {}): StreamSubject {
  return {
    id: "millrace",
    name: "Millrace",
    start: async (profileDir) => {
      const service = await startMillrace(makeScratchDir(), [app], { ...options, profileDir });
      const { pid, headers, stop } = service;
      return { url: service.callUrl(app), headers, pid, stop };
    },
  };
}

/** The tokens on FastAPI's StreamingResponse, both ways. */
export const FASTAPI_STREAMS: readonly StreamSubject[] = [
  {
    id: "fastapi async generator",
    name: "FastAPI, async def",
    start: () => startFastapi("async-generator"),
  },
  { id: "fastapi generator", name: "FastAPI, def", start: () => startFastapi("generator") },
];
