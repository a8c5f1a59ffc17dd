import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../model/errors.ts";
import type { RunTiming } from "../runs/execute.ts";
import { respondError, roundMs } from "../runs/response.ts";
import type { RunResponse } from "../runs/response.ts";
import type { Cors } from "./cors.ts";

/** One request and its one answer. */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** On a run call the run's id. */
  readonly id: string;
  readonly #cors: Cors;
  origin: string | null = null;

  constructor(request: IncomingMessage, response: ServerResponse, id: string, cors: Cors) {
    this.request = request;
    this.response = response;
    this.id = id;
    this.#cors = cors;
  }

  /** Sends the answer; a second one, or one to a caller who has gone, goes nowhere. */
  answer(answer: RunResponse, timing?: RunTiming): void {
    const { response, origin } = this;
    if (response.headersSent || response.destroyed) return;
    const headers = ["x-request-id", this.id];
    if (answer.contentType !== null) {
      headers.push("content-type", answer.contentType, "content-length", String(answer.body.length));
    }
    if (timing) headers.push("server-timing", serverTiming(timing));
    if (answer.error) addAll(headers, answer.headers);
    if (origin !== null) addAll(headers, this.#cors.headers(origin));
    if (!this.request.complete) headers.push("connection", "close");
    response.writeHead(answer.status, headers);
    response.end(answer.body);
    // What is still coming of a refused body is not wanted; Node closes after the answer.
    if (!this.request.complete) this.request.resume();
  }

  fail(error: AppError): void {
    this.answer(respondError(this.id, error));
  }

  /** The answer to a browser that asks whether a page may call. */
  answerPreflight(): void {
    const asked = this.request.headers["access-control-request-headers"];
    const headers = this.#cors.preflight(this.origin ?? "", asked);
    this.response.writeHead(204, { ...headers, "x-request-id": this.id }).end();
  }
}

function addAll(list: string[], headers: Readonly<Record<string, string>>): void {
  for (const name in headers) list.push(name, headers[name] ?? "");
}

function serverTiming({ queueMs, startMs, runMs }: RunTiming): string {
  const waits = `queue;dur=${roundMs(queueMs)}, start;dur=${roundMs(startMs)}`;
  return runMs === null ? waits : `${waits}, run;dur=${roundMs(runMs)}`;
}
