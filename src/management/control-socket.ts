import { chmod, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import path from "node:path";

/** What the command line may ask of a running service on the same machine. */
export type ControlRequests = { readonly bootstrap: () => unknown };

/** The control socket's place; only the service's own user can reach it. */
export function controlSocketPath(runtimeDir: string): string {
  return path.join(runtimeDir, "control.sock");
}

/** Answers `GET /<name>` with JSON for each request named. */
export async function openControlSocket(runtimeDir: string, requests: ControlRequests): Promise<Server> {
  const address = controlSocketPath(runtimeDir);
  await rm(address, { force: true });
  const server = createServer((request, response) => {
    const name = request.url?.slice(1) ?? "";
    const answer = Object.hasOwn(requests, name) ? requests[name as keyof ControlRequests] : null;
    response.writeHead(answer ? 200 : 404, { "content-type": "application/json" });
    response.end(JSON.stringify(answer ? answer() : { message: "no such request" }));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(address, resolve);
  });
  await chmod(address, 0o600);
  return server;
}
