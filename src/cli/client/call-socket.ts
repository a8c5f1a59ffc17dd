import type { IncomingMessage } from "node:http";
import { createInterface } from "node:readline";
import { WebSocket } from "ws";
import { APP } from "../../shapes/apps.ts";
import { CliFailure, EXIT, usage } from "../failure.ts";
import { answerText, type Output, printable } from "../output.ts";
import { withProgress } from "../terminal.ts";
import type { Api } from "./api.ts";
import { type CallFlags, readHeaders } from "./call-arguments.ts";
import { explainPath, isOwnRefusal } from "./explain.ts";
import { ConnectionError } from "./http.ts";
import type { SocketEnd } from "./tail-socket.ts";
import type { Task } from "./task.ts";

const NO_CODE = 1005; // The close frame had none.
const NORMAL_END = 1000;
const MAX_SHOWN_BYTES = 64;
/** Options of requests only. */
const OF_REQUESTS = ["data", "method", "async", "stream", "webhook", "key"] as const;

/** Opens a WebSocket to an app: lines of stdin go out and messages are printed, until one side closes it. */
export async function callSocket(
  task: Task<CallFlags>,
  app: string,
  path: string,
  words: readonly string[],
): Promise<void> {
  const { api, flags, out, signal } = task;
  const misplaced = OF_REQUESTS.find((name) => flags[name] !== undefined);
  if (misplaced) throw usage(`--${misplaced} does not go with --ws, which sends the lines of stdin`);
  if (words.length > 0) throw usage("--ws sends the lines of stdin, and takes no key=value");
  const headers = readHeaders(flags);
  try {
    const { socket, ended } = await withProgress(`${app} ${path}`, out.isJson, async () => {
      return await openSocket(api, app, path, headers, (from, data, isBinary) =>
        print(from, out, data, isBinary),
      );
    });
    out.note("connected: each line is sent as a message, Ctrl-D ends");
    await sendLines(socket, (flags.linger ?? 1) * 1000);
    const end = await ended;
    signal.throwIfAborted();
    conclude(out, end);
  } finally {
    // Left open at a terminal, it would keep the process alive.
    process.stdin.destroy();
  }
}

/** Sends stdin line by line, no faster than the other side takes it; after its end, closes once nothing more comes. */
async function sendLines(socket: WebSocket, lingerMs: number): Promise<void> {
  const lines = createInterface({ input: process.stdin });
  socket.once("close", () => lines.close());
  for await (const line of lines) {
    if (socket.readyState !== WebSocket.OPEN) return;
    await new Promise<void>((resolve) => socket.send(line, () => resolve()));
  }
  if (socket.readyState !== WebSocket.OPEN) return;
  // Another answer may be on its way, and most servers send none after a close frame.
  const timer = setTimeout(() => socket.close(NORMAL_END), lingerMs);
  socket.on("message", () => timer.refresh());
  socket.once("close", () => clearTimeout(timer));
}

/** Prints a message on a line of its own; while the reader is slow, the other side waits. */
function print(socket: WebSocket, out: Output, data: Buffer, isBinary: boolean): void {
  const hasRoom = process.stdout.write(`${lineOf(out, data, isBinary)}\n`);
  if (hasRoom || socket.isPaused) return;
  socket.pause();
  process.stdout.once("drain", () => socket.resume());
}

function lineOf({ isJson }: Output, data: Buffer, isBinary: boolean): string {
  if (isJson && isBinary) return JSON.stringify({ type: "binary", data: data.toString("base64") });
  if (isJson) return JSON.stringify({ type: "text", data: data.toString() });
  if (!isBinary) return answerText(data.toString());
  const shown = data.subarray(0, MAX_SHOWN_BYTES).toString("hex");
  return `[binary, ${data.length} bytes] ${shown}${data.length > MAX_SHOWN_BYTES ? "…" : ""}`;
}

/** Reports how it ended; fails the command unless the end was normal. */
function conclude(out: Output, { code, reason }: SocketEnd): void {
  const isNormal = code === NORMAL_END || code === NO_CODE;
  const said = `the WebSocket was closed: ${code}${reason === "" ? "" : ` ${reason}`}`;
  if (out.isJson) {
    out.line({ type: "close", code, reason }, "");
    if (!isNormal) process.exitCode = EXIT.failure;
  } else if (isNormal) {
    process.stderr.write(`${printable(said)}\n`);
  } else {
    throw new CliFailure(said);
  }
}

const MAX_REFUSAL_CHARS = 64 * 1024;

/** Opens a WebSocket to a path of a server app; throws the reason of a refusal. The signal closes it with a close frame. */
async function openSocket(
  api: Api,
  app: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  onMessage: (socket: WebSocket, data: Buffer, isBinary: boolean) => void,
): Promise<{ readonly socket: WebSocket; readonly ended: Promise<SocketEnd> }> {
  const url = await api.pathUrl(app, path);
  url.protocol = url.protocol.replace("http", "ws");
  // Renews a token that has expired: a handshake cannot be sent again with a new one.
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
    socket.once("close", () => reject(new ConnectionError(url.href, fault)));
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

async function refused(api: Api, app: string, path: string, response: IncomingMessage): Promise<never> {
  let text = "";
  for await (const piece of response) {
    text += String(piece);
    if (text.length > MAX_REFUSAL_CHARS) break;
  }
  const { statusCode: status = 0, statusMessage } = response;
  if (isOwnRefusal(text)) throw explainPath(api.site, app, status, text);
  throw new CliFailure(`${path} opens no WebSocket: it answered ${status} ${statusMessage}`, {
    details: text.trim() === "" ? [] : [text.trim().slice(0, 500)],
  });
}
