import { type IncomingMessage, request } from "node:http";
import { peakBytesOf, resetPeakBytesOf, residentBytesOf, runMsOf } from "./proc.ts";
import type { ServerRunning } from "./server-subjects.ts";

/** One large body in one direction. CPU time and memory are those of the process that callers talk to. */
export type Transfer = {
  readonly bytesPerSecond: number;
  readonly cpuMs: number;
  /** The most that its memory was above what it was before, of the first such body. */
  readonly growthBytes: number;
};

export const DIRECTIONS = ["upload", "download"] as const;
export type Direction = (typeof DIRECTIONS)[number];

const PIECE = Buffer.alloc(64 * 1024);

/** Sends or fetches that many pieces of 64 KiB on a connection of its own. */
export async function transfer(
  server: ServerRunning,
  direction: Direction,
  pieces: number,
): Promise<Transfer> {
  const { pid } = server;
  const before = residentBytesOf(pid);
  resetPeakBytesOf(pid);
  const cpuBefore = runMsOf(pid);
  const startedAt = performance.now();
  await (direction === "upload" ? upload : download)(server, pieces);
  const seconds = (performance.now() - startedAt) / 1000;
  return {
    bytesPerSecond: (pieces * PIECE.length) / seconds,
    cpuMs: runMsOf(pid) - cpuBefore,
    growthBytes: Math.max(0, peakBytesOf(pid) - before),
  };
}

async function upload(server: ServerRunning, pieces: number): Promise<void> {
  const bytes = pieces * PIECE.length;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const headers = { ...server.headers, "Content-Length": bytes };
  const call = request(urlOf(server, "upload"), { method: "POST", agent: false, headers }, resolve);
  call.on("error", reject);
  let sent = 0;
  const send = (): void => {
    while (sent < pieces) {
      sent += 1;
      if (call.write(PIECE)) continue;
      call.once("drain", send);
      return;
    }
    call.end();
  };
  send();
  const response = await promise;
  const text = Buffer.concat((await response.toArray()) as Buffer[]).toString();
  if (text !== `{"bytes":${bytes}}`)
    throw new Error(`an upload was answered ${response.statusCode}: ${text}`);
}

async function download(server: ServerRunning, pieces: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const { headers } = server;
  const call = request(urlOf(server, `download?pieces=${pieces}`), { agent: false, headers }, resolve);
  call.on("error", reject);
  call.end();
  const response = await promise;
  let received = 0;
  for await (const piece of response) received += (piece as Buffer).length;
  if (received !== pieces * PIECE.length)
    throw new Error(`a download was answered ${response.statusCode} with ${received} bytes`);
}

/** Another path of the same app. */
function urlOf({ url }: ServerRunning, path: string): string {
  return new URL(path, url).href;
}
