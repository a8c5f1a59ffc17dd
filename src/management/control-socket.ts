import { randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { chmod, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import path from "node:path";
import type { OperatorRequests } from "../identity/identity-parts.ts";
import { systemClock } from "../kit/clock.ts";
import { createServer } from "../kit/node-http.ts";

/** The requests of the command line to a running service on the same machine, by name. */
export type ControlRequests = OperatorRequests & {
  readonly copyDatabase: (input: { readonly to: string }) => Promise<unknown>;
  /** The report of a database inspection, and the storage limits. */
  readonly inspectDatabase: () => Promise<unknown>;
  readonly storage: () => Promise<unknown>;
  /** Installs the packages of apps again that are missing. */
  readonly repairEnvironments: () => Promise<unknown>;
};

/** The interval of heartbeats while a request takes long. */
const HEARTBEAT_MS = 2_000;
/** A service without a heartbeat for this long hangs or is stopped. */
export const SILENCE_MS = 15_000;
const MAX_INPUT_BYTES = 64 * 1024;

/** Only the service's own user can reach it. */
export function controlSocketPath(runtimeDir: string): string {
  return path.join(runtimeDir, "control.sock");
}

export const KEY_HEADER = "x-control-key";

/** The clients' key, empty if there is none: an app may connect to the socket, but cannot read this file. */
export function controlKey(runtimeDir: string): string {
  try {
    return readFileSync(keyPath(runtimeDir), "latin1");
  } catch {
    return "";
  }
}

function keyPath(runtimeDir: string): string {
  return path.join(runtimeDir, "control.key");
}

/** Answers `POST /<name>`, its input a JSON object, with JSON for each request named. */
export async function openControlSocket(runtimeDir: string, requests: ControlRequests): Promise<Server> {
  const address = controlSocketPath(runtimeDir);
  for (const left of [address, keyPath(runtimeDir)]) await rm(left, { force: true });
  const key = randomBytes(32).toString("hex");
  await writeFile(keyPath(runtimeDir), key, { mode: 0o600, flag: "wx" });
  const server = createServer((request, response) => {
    if (!isKey(request.headers[KEY_HEADER], key)) {
      request.resume();
      return send(response, 403, { message: "it was asked without the key in its runtime directory" });
    }
    response.writeProcessing();
    const heartbeat = systemClock.every(HEARTBEAT_MS, () => response.writeProcessing());
    answer(requests, request)
      .finally(() => heartbeat.cancel())
      .then(
        (result) => send(response, 200, result ?? null),
        (error: unknown) =>
          send(response, 500, { message: error instanceof Error ? error.message : String(error) }),
      );
  });
  // Copying a large database has no time limit.
  server.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(address, resolve);
  });
  await chmod(address, 0o600);
  return server;
}

function isKey(shown: string | string[] | undefined, key: string): boolean {
  return (
    typeof shown === "string" &&
    shown.length === key.length &&
    timingSafeEqual(Buffer.from(shown, "latin1"), Buffer.from(key))
  );
}

async function answer(requests: ControlRequests, request: IncomingMessage): Promise<unknown> {
  const name = request.url?.slice(1) ?? "";
  if (!Object.hasOwn(requests, name)) throw new Error(`unknown request ${name}`);
  const ask = requests[name as keyof ControlRequests];
  return await ask((await readInput(request)) as never);
}

async function readInput(request: IncomingMessage): Promise<unknown> {
  let text = "";
  request.setEncoding("utf8");
  for await (const part of request) {
    text += String(part);
    if (text.length > MAX_INPUT_BYTES) throw new Error("the input is too large");
  }
  return text === "" ? {} : JSON.parse(text);
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
