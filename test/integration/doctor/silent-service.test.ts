import { mkdirSync, rmSync } from "node:fs";
import { request } from "node:http";
import { createServer, type Socket } from "node:net";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { askService, SilentServiceError } from "../../../src/cli/ask-service.ts";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import {
  KEY_HEADER,
  controlKey,
  controlSocketPath,
  openControlSocket,
} from "../../../src/management/control-socket.ts";
import type { ControlRequests } from "../../../src/management/control-socket.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { verifies } from "../../verifies.ts";

function place(): { dataDir: string; sockets: string } {
  const dataDir = path.join(scratchDirectory(), "data");
  const sockets = runtimeDir(dataDir);
  mkdirSync(sockets, { mode: 0o700 });
  onTestFinished(() => rmSync(sockets, { recursive: true, force: true }));
  return { dataDir, sockets };
}

verifies("doctor.hang", "a service that accepts and says nothing is not waited for", async () => {
  const { dataDir, sockets } = place();
  const open = new Set<Socket>();
  const server = createServer((socket) => void open.add(socket));
  await new Promise<void>((resolve) => server.listen(controlSocketPath(sockets), resolve));
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  await expect(askService(dataDir, "inspectDatabase", {}, 100)).rejects.toThrow(SilentServiceError);
});

verifies("doctor.hang", "a service at work says so until it has the answer", async () => {
  const { sockets } = place();
  const { promise, resolve } = Promise.withResolvers<string>();
  const requests = { inspectDatabase: () => promise } as unknown as ControlRequests;
  const server = await openControlSocket(sockets, requests);
  onTestFinished(() => void server.close());
  const socketPath = controlSocketPath(sockets);
  let signs = 0;
  const status = await new Promise((answer, reject) => {
    const headers = { [KEY_HEADER]: controlKey(sockets) };
    const asked = request({ socketPath, path: "/inspectDatabase", method: "POST", headers }, (response) => {
      response.resume();
      answer(response.statusCode);
    });
    asked.on("error", reject);
    // The answer comes only after the second of them.
    asked.on("information", () => ++signs === 2 && resolve("done"));
    asked.end();
  });
  expect(status).toBe(200);
});
