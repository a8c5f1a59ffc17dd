import { WebSocket } from "ws";
import { CliFailure } from "../failure.ts";
import type { Infer, Shape } from "../../shapes/shape.ts";
import type { Api, Query } from "./api.ts";
import { explain, explainConnection } from "./explain.ts";
import { ConnectionError } from "./http.ts";
import { readJson } from "./read-json.ts";

/** What a socket ended with: 1000 when there was no more to tell. */
export type SocketEnd = { readonly code: number; readonly reason: string };

/** Reads the frames of a WebSocket on the management plane until it ends; the token travels in a header. */
export async function readFrames<S extends Shape>(
  api: Api,
  shape: S,
  path: string,
  query: Query,
  onFrame: (frame: Infer<S>) => void,
): Promise<SocketEnd> {
  const { site, signal } = api;
  const url = new URL(`${site.baseUrl}${path}`);
  url.protocol = url.protocol.replace("http", "ws");
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  signal.throwIfAborted();
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${site.token}` } });
  const onAbort = (): void => socket.terminate();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const end = await untilClosed(socket, api, (text) => onFrame(readJson(shape, text, site.baseUrl)));
    signal.throwIfAborted();
    return end;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

async function untilClosed(
  socket: WebSocket,
  { site }: Api,
  onText: (text: string) => void,
): Promise<SocketEnd> {
  return await new Promise((resolve, reject) => {
    let isOpen = false;
    socket.on("open", () => (isOpen = true));
    socket.on("message", (data: Buffer) => {
      try {
        onText(data.toString());
      } catch (error) {
        reject(error);
        socket.terminate();
      }
    });
    socket.on("close", (code, reason) => resolve({ code, reason: reason.toString() }));
    socket.on("unexpected-response", (_, answer) => {
      let text = "";
      answer.on("data", (part: Buffer) => (text += part.toString()));
      answer.on("end", () => reject(explain({ status: answer.statusCode ?? 0 }, text, site)));
    });
    socket.on("error", (error) => {
      // Once it was open, the close that follows tells what is to be done.
      if (!isOpen) reject(explainConnection(new ConnectionError(site.baseUrl, error.message)));
    });
  });
}

/** Throws for an end after which it makes no sense to connect again. */
export function requireRenewable({ code, reason }: SocketEnd): void {
  if (code === 1008)
    throw new CliFailure(`the service ended the connection: ${reason || "the token is no longer valid"}`);
}
