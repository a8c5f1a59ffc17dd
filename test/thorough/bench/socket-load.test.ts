import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { WebSocketServer } from "ws";
import { stopAll } from "../../../bench/processes.ts";
import { startSocketClient } from "../../../bench/socket-client.ts";
import { until } from "../../support/until.ts";

afterAll(stopAll);

test("WebSockets are opened, have frames echoed and are closed; a refused handshake is told", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const sockets = new WebSocketServer({ noServer: true });
  onTestFinished(() => {
    sockets.close();
    server.close();
  });
  let echoed = 0;
  const codes: number[] = [];
  server.on("upgrade", (request, socket, head) => {
    if (request.headers.authorization !== "Bearer t") {
      socket.end("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
      return;
    }
    sockets.handleUpgrade(request, socket, head, (peer) => {
      peer.on("message", (data: Buffer) => {
        echoed += 1;
        peer.send(data.toString());
      });
      peer.on("close", (code) => codes.push(code));
    });
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/frames`;
  const target = {
    url,
    headers: { Authorization: "Bearer t" },
    pid: process.pid,
    stop: () => Promise.resolve(),
  };
  const client = startSocketClient();
  await client.open(target, 60);
  expect(sockets.clients.size).toBe(60);
  await client.close(target);
  await until("all are closed", () => codes.length === 60);
  expect(new Set(codes)).toEqual(new Set([1000]));
  const { frames } = await client.echo(target, 4, 100);
  expect(frames).toBeGreaterThanOrEqual(4);
  expect(echoed).toBe(frames);
  await expect(client.open({ ...target, headers: {} }, 1)).rejects.toThrow("401 Unauthorized");
});
