import type { IncomingMessage } from "node:http";
import { WebSocket } from "ws";
import { APP } from "../../shapes/apps.ts";
import { CliFailure, usage } from "../failure.ts";
import type { Api } from "./api.ts";
import { explainConnection } from "./explain.ts";
import { ConnectionError } from "./http.ts";
import { explainPath, isOwnRefusal, pathUrl } from "./server-path.ts";
import type { SocketEnd } from "./tail-socket.ts";

export type AppSocket = { readonly socket: WebSocket; readonly ended: Promise<SocketEnd> };

type Wish = {
  readonly app: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly onMessage: (socket: WebSocket, data: Buffer, isBinary: boolean) => void;
};

/** The code of a close frame that says nothing went wrong. */
export const NORMAL_END = 1000;
const MAX_REFUSAL_CHARS = 64 * 1024;

/**
 * Opens a WebSocket to a path of an app that is a server, the token in a header; throws why there is none. The signal
 * of the command closes it as it should be closed.
 */
export async function openSocket(api: Api, { app, path, headers, onMessage }: Wish): Promise<AppSocket> {
  const url = await pathUrl(api, app, path);
  url.protocol = url.protocol.replace("http", "ws");
  // A handshake cannot be sent again with a token that was renewed: this renews one that has expired.
  await api.get(APP, await api.appPath(app), { about: { app } });
  api.signal.throwIfAborted();
  const socket = connect(url, { authorization: `Bearer ${api.site.token}`, ...headers });
  const onAbort = (): void => socket.close(NORMAL_END);
  api.signal.addEventListener("abort", onAbort, { once: true });
  let fault = "";
  const ended = new Promise<SocketEnd>((resolve) => {
    // From here on: the first message may come together with the handshake's answer.
    socket.on("message", (data: Buffer, isBinary) => onMessage(socket, data, isBinary));
    socket.on("error", ({ message }) => (fault = message));
    socket.on("close", (code, reason) => {
      api.signal.removeEventListener("abort", onAbort);
      resolve({ code, reason: reason.toString() || fault });
    });
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("open", resolve);
    socket.once("close", () => reject(explainConnection(new ConnectionError(url.href, fault))));
    socket.once("unexpected-response", (_, response) => {
      refused(api, app, path, response).catch((error: unknown) => {
        reject(error);
        socket.terminate();
      });
    });
  });
  return { socket, ended };
}

function connect(url: URL, headers: Readonly<Record<string, string>>): WebSocket {
  // The package has to know which subprotocols it may be answered with.
  const { "sec-websocket-protocol": protocols = "", ...others } = headers;
  const offered = protocols.split(",").flatMap((name) => name.trim() || []);
  try {
    return new WebSocket(url, offered, { headers: others });
  } catch (error) {
    throw usage((error as Error).message);
  }
}

/** Throws what the answer to a handshake says, by the service or by the app. */
async function refused(api: Api, app: string, path: string, response: IncomingMessage): Promise<never> {
  let text = "";
  for await (const piece of response) {
    text += String(piece);
    if (text.length > MAX_REFUSAL_CHARS) break;
  }
  const { statusCode: status = 0, statusMessage } = response;
  if (isOwnRefusal(text)) throw explainPath(api, app, { status }, text);
  throw new CliFailure(`${path} opens no WebSocket: it answered ${status} ${statusMessage}`, {
    details: text.trim() === "" ? [] : [text.trim().slice(0, 500)],
  });
}
