import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import type { Infer, Shape } from "../../shapes/shape.ts";
import { CliFailure } from "../failure.ts";
import type { Api, Query } from "./api.ts";
import { explain, readJson } from "./explain.ts";
import { ConnectionError } from "./http.ts";

/** How a socket was closed: 1000 when there was no more to tell. */
export type SocketEnd = { readonly code: number; readonly reason: string };

/** Frames that a WebSocket of the management plane sends, and its successors after a loss. */
type Source<S extends Shape> = {
  readonly shape: S;
  readonly path: string;
  /** Called for each connection: names the frame to continue after. */
  readonly query: () => Query;
  /** Whether this is the end; if not, the connection was lost, and is opened again. */
  readonly isOver: (end: SocketEnd) => boolean;
};

/** Connections in a row that may end without a frame. */
const MAX_LOSSES = 120;
const GAP_MS = 500;

/** Reads frames to their end; false if the connection was lost too often. */
export async function followFrames<S extends Shape>(
  api: Api,
  { shape, path, query, isOver }: Source<S>,
  onFrame: (frame: Infer<S>) => void,
): Promise<boolean> {
  for (let losses = 0; losses < MAX_LOSSES; losses += 1) {
    const end = await readFrames(api, shape, path, query(), (frame) => {
      losses = 0;
      onFrame(frame);
    });
    if (isOver(end)) return true;
    if (end.code === 1008)
      throw new CliFailure(
        `the service ended the connection: ${end.reason || "the token is no longer valid"}`,
      );
    await sleep(GAP_MS, undefined, { signal: api.signal });
  }
  return false;
}

/** Reads the frames of one WebSocket until it ends; the token travels in a header. */
async function readFrames<S extends Shape>(
  { site, signal }: Api,
  shape: S,
  path: string,
  query: Query,
  onFrame: (frame: Infer<S>) => void,
): Promise<SocketEnd> {
  const url = new URL(`${site.baseUrl}${path}`);
  url.protocol = url.protocol.replace("http", "ws");
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) url.searchParams.set(name, String(value));
  signal.throwIfAborted();
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${site.token}` } });
  const onAbort = (): void => socket.terminate();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const end = await new Promise<SocketEnd>((resolve, reject) => {
      let isOpen = false;
      socket.on("open", () => (isOpen = true));
      socket.on("message", (data: Buffer) => {
        try {
          onFrame(readJson(shape, data.toString(), site.baseUrl));
        } catch (error) {
          reject(error);
          socket.terminate();
        }
      });
      socket.on("close", (code, reason) => resolve({ code, reason: reason.toString() }));
      socket.on("unexpected-response", (_, answer) => {
        let text = "";
        answer.on("data", (part: Buffer) => (text += part.toString()));
        answer.on("end", () => reject(explain(answer.statusCode ?? 0, text, site)));
      });
      socket.on("error", (error) => {
        // After the opening, the close event that follows says what happened.
        if (!isOpen) reject(new ConnectionError(site.baseUrl, error.message));
      });
    });
    signal.throwIfAborted();
    return end;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
