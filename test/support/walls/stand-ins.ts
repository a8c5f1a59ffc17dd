import { createSocket } from "node:dgram";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import path from "node:path";
import { onTestFinished } from "vitest";
import { REPOSITORY } from "../source-files.ts";

const sourceOf = (name: string): string =>
  readFileSync(path.join(REPOSITORY, "test/support/walls", name), "utf8");

/** An app that tries to reach addresses in every way there is. */
export const NETWORK_APP = {
  main: sourceOf("network-app.py"),
  files: { "network_ways.py": sourceOf("network_ways.py") },
};

/** Listens on an address of this machine and says one thing to everybody; gives the port. */
export async function standIn(host: string, said: string): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.end(said);
  });
  server.listen(0, host, 4096);
  await once(server, "listening");
  onTestFinished(async () => {
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  return (server.address() as AddressInfo).port;
}

/** The same for datagrams, at a port that is given. */
export async function datagramStandIn(host: string, port: number, said: string): Promise<void> {
  const socket = createSocket("udp4");
  socket.on("message", (_, from) => socket.send(said, from.port, from.address));
  socket.bind(port, host);
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
}
