import type { IncomingHttpHeaders, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ConfigError } from "../config/problems.ts";
import { parseDuration } from "../kit/duration.ts";
import { createServer } from "../kit/node-http.ts";
import { callerSignature, holdsSignature, standardSignature } from "../runs/webhooks/signing-secrets.ts";
import { printable } from "./output/paint.ts";

export type ListenFlags = {
  readonly port: string;
  readonly status: string;
  readonly delay: string;
  readonly secret?: string;
  readonly json?: boolean;
};

type Listening = {
  readonly port: number;
  readonly status: number;
  readonly delayMs: number;
  readonly secret: string | null;
  readonly isJson: boolean;
};

/** A delivery as it came. */
type Came = {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
};

const TOLERANCE_SECONDS = 300;
const SHOWN_CHARACTERS = 2_000;
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** `millrace webhook listen`: a receiver on this machine that shows what comes and checks its signature. */
export async function listen(flags: ListenFlags): Promise<void> {
  const listening = readFlags(flags);
  const server = receiver(listening, (came) => {
    process.stdout.write(listening.isJson ? asJson(came, listening) : asText(came, listening));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(listening.port, "127.0.0.1", resolve);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  if (listening.isJson) process.stdout.write(`${JSON.stringify({ listening: url })}\n`);
  else process.stdout.write(`Listening on ${url}\nUse it as webhookEndpoint. Ctrl-C stops it.\n\n`);
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => resolve());
  });
  server.close();
  server.closeAllConnections();
}

function receiver({ status, delayMs }: Listening, show: (came: Came) => void): Server {
  return createServer((request, response) => {
    const pieces: Buffer[] = [];
    let bytes = 0;
    request.on("error", () => {}); // Whoever leaves in the middle has sent no delivery.
    request.on("data", (piece: Buffer) => {
      bytes += piece.length;
      if (bytes > MAX_BODY_BYTES) request.destroy();
      else pieces.push(piece);
    });
    request.on("end", () => {
      const { method = "", url: path = "", headers } = request;
      show({ method, path, headers, body: Buffer.concat(pieces) });
      void sleep(delayMs, undefined, { ref: false }).then(() => response.writeHead(status).end());
    });
  });
}

/** One word for the signature: `good`, `bad`, `missing`, `expired`, or `unchecked` without a secret. */
function judgeSignature({ headers, body }: Came, secret: string | null): string {
  if (secret === null) return "unchecked";
  const isStandard = secret.startsWith("whsec_");
  const name = isStandard ? "webhook" : "x-cerebrium-webhook";
  const { [`${name}-signature`]: signature, [`${name}-timestamp`]: timestamp } = headers;
  if (typeof signature !== "string" || typeof timestamp !== "string") return "missing";
  const id = String(headers["webhook-id"] ?? headers["x-request-id"] ?? "");
  const signable = { id, timestampSeconds: Number(timestamp), body };
  const expected = isStandard
    ? standardSignature([secret], signable)
    : callerSignature(Buffer.from(secret), signable);
  if (!holdsSignature(signature, expected)) return "bad";
  return Math.abs(Date.now() / 1_000 - Number(timestamp)) > TOLERANCE_SECONDS ? "expired" : "good";
}

function asJson(came: Came, { status, secret }: Listening): string {
  const { method, path, headers, body } = came;
  const signature = judgeSignature(came, secret);
  const runId = headers["x-request-id"] ?? null;
  return `${JSON.stringify({ method, path, runId, signature, answered: status, headers, body: body.toString() })}\n`;
}

function asText(came: Came, { status, secret }: Listening): string {
  const { method, path, headers, body } = came;
  const text = body.toString();
  const rest = text.length - SHOWN_CHARACTERS;
  return [
    `${new Date().toISOString()}  ${method} ${path}, answered ${status}`,
    `  run        ${String(headers["x-request-id"] ?? "none")}`,
    `  status     ${String(headers["x-millrace-run-status"] ?? "none")}`,
    `  signature  ${judgeSignature(came, secret)}`,
    `  body       ${body.length} bytes, ${headers["content-type"] ?? "no content type"}`,
    `  ${text.slice(0, SHOWN_CHARACTERS)}${rest > 0 ? `… ${rest} more characters` : ""}`,
  ]
    .map((line) => `${printable(line)}\n`)
    .join("")
    .concat("\n");
}

function readFlags({ port, status, delay, secret, json }: ListenFlags): Listening {
  const problems: string[] = [];
  const inRange = (name: string, text: string, low: number, high: number): number => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= low && value <= high)) problems.push(`--${name} must be from ${low} to ${high}`);
    return value;
  };
  const seconds = parseDuration(delay);
  if (seconds === null) problems.push("--delay must be a duration such as 3s");
  const listening = {
    port: inRange("port", port, 0, 65_535),
    status: inRange("status", status, 200, 599),
    delayMs: Math.round((seconds ?? 0) * 1_000),
    secret: secret ?? null,
    isJson: json ?? false,
  };
  if (problems.length > 0) throw new ConfigError("the command line", problems);
  return listening;
}
