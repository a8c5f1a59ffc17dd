import { SseParser } from "../../src/client/sse.ts";
import type { BodyLog } from "./body-log.ts";
import { installation } from "./installation.ts";
import { isEventType, isTextType } from "./media-type.ts";
import type { MessageLog } from "./message-log.ts";
import { session } from "./session.ts";

/** Those that a page may send. */
export const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;

type ServerAddress = {
  readonly projectId: string;
  readonly appName: string;
  /** With its query. */
  readonly path: string;
};

/** A request to a server app, as somebody would write it down. */
export type ServerCall = ServerAddress & {
  readonly method: string;
  /** A line each. */
  readonly headers: string;
  readonly body: string;
};

/** A WebSocket of a server app. */
export type SocketCall = ServerAddress & {
  /** That the app may choose from, with commas in between. */
  readonly protocols: string;
};

type Header = readonly [name: string, value: string];

/** What a server answered, as far as it has come; the body is in the logs. */
export type ServerAnswer = {
  readonly status: number;
  readonly headers: readonly Header[];
  readonly contentType: string;
  readonly kind: "events" | "text" | "bytes";
  /** Null where no run was made of the call. */
  readonly runId: string | null;
  readonly isStream: boolean;
  /** From the call to the head of the answer, and to its end. */
  readonly headMs: number;
  readonly totalMs: number | null;
  /** It was given up on the way. */
  readonly isStopped: boolean;
};

/** Whether a page can send a body with that method. */
export function takesBody(method: string): boolean {
  return method !== "GET" && method !== "HEAD";
}

/** What is sent as a request's body. */
export function bodyOf({ method, body }: ServerCall): string | null {
  return takesBody(method) && body !== "" ? body : null;
}

/** The headers that are sent, besides the token: those that were given, and a type for a body that has none. */
export function headersOf(call: ServerCall): Header[] {
  const given = call.headers.split("\n").filter((line) => line.trim() !== "");
  const headers = given.map(readHeader).filter((header) => header !== null);
  const body = bodyOf(call);
  if (body === null || headers.some(([name]) => name.toLowerCase() === "content-type")) return headers;
  return [...headers, ["Content-Type", isJson(body) ? "application/json" : "text/plain;charset=UTF-8"]];
}

/** What is wrong with the headers; null when they can be sent. */
export function headerFault(headers: string): string | null {
  const lines = headers.split("\n");
  const wrong = lines.findIndex((line) => line.trim() !== "" && readHeader(line) === null);
  return wrong === -1 ? null : `Line ${wrong + 1} is not a header. Write it as Name: value.`;
}

/** The address of a path of the app. */
export function serverUrl({ projectId, appName, path }: ServerAddress): string {
  return `${installation.apiUrl}/v4/${projectId}/${appName}${path.startsWith("/") ? "" : "/"}${path}`;
}

/** The same for a WebSocket. */
export function socketUrl(address: ServerAddress): string {
  return serverUrl(address).replace(/^http/, "ws");
}

/** The subprotocols that were given. */
export function protocolsOf({ protocols }: SocketCall): string[] {
  return protocols.split(",").flatMap((name) => name.trim() || []);
}

/** Sends a request as it stands. Its answer goes to the logs as it comes. To abort is to cancel the run. */
export async function callServer(
  call: ServerCall,
  logs: { readonly messages: MessageLog; readonly body: BodyLog },
  onAnswer: (answer: ServerAnswer) => void,
  signal: AbortSignal,
): Promise<void> {
  const startedAt = performance.now();
  const token = await session.token();
  const headers = new Headers(headersOf(call).map(([name, value]): [string, string] => [name, value]));
  if (token !== null && !headers.has("authorization")) headers.set("authorization", `Bearer ${token}`);
  const response = await fetch(serverUrl(call), {
    method: call.method,
    headers,
    body: bodyOf(call),
    signal,
    cache: "no-store",
  });
  const contentType = response.headers.get("content-type") ?? "";
  const isStream = isEventType(contentType);
  const head = {
    status: response.status,
    headers: [...response.headers],
    contentType,
    kind: isStream ? "events" : isTextType(contentType) ? "text" : "bytes",
    runId: runIdOf(response),
    isStream,
    headMs: performance.now() - startedAt,
    totalMs: null,
    isStopped: false,
  } as const;
  onAnswer(head);
  await readBody(response, logs, isStream, signal);
  onAnswer({ ...head, totalMs: performance.now() - startedAt });
}

async function readBody(
  response: Response,
  { messages, body }: { readonly messages: MessageLog; readonly body: BodyLog },
  isStream: boolean,
  signal: AbortSignal,
): Promise<void> {
  const reader = response.body?.getReader();
  const parser = isStream ? new SseParser() : null;
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true };
      if (done || !value) return;
      body.add(value);
      for (const { event, data } of parser?.feed(value) ?? []) messages.add(event, data);
    }
  } catch (error) {
    throw signal.aborted ? error : new Error("The connection was closed before the answer was complete.");
  } finally {
    body.flush();
    messages.flush();
  }
}

/** A call that was refused on the way has no run; of one that is, the service tells the times, or where it is found. */
function runIdOf({ headers, status }: Response): string | null {
  const isRun = headers.has("server-timing") || (status === 202 && headers.has("location"));
  return isRun ? headers.get("x-request-id") : null;
}

/** A header as one line has it; null where it is none that could be sent. */
function readHeader(line: string): Header | null {
  const colon = line.indexOf(":");
  const [name, value] = [line.slice(0, Math.max(0, colon)).trim(), line.slice(colon + 1).trim()];
  try {
    return new Headers([[name, value]]).has(name) ? [name, value] : null;
  } catch {
    return null;
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
