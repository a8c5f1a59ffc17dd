import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { listenersSeenBy } from "../../../src/host/listeners.ts";

async function listen(host: string): Promise<number> {
  const server = createServer();
  server.listen(0, host);
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

test("those that listen are found among many connections, however late they came", async () => {
  const first = await listen("127.0.0.1");
  const clients = Array.from({ length: 200 }, () => connect(first, "127.0.0.1"));
  onTestFinished(() => clients.forEach((client) => client.destroy()));
  await Promise.all(clients.map((client) => once(client, "connect")));
  const second = await listen("0.0.0.0");
  const found = await listenersSeenBy(process.pid);
  const at = (port: number) => found.filter((listener) => listener.port === port);
  expect(at(first)).toMatchObject([{ host: "127.0.0.1", isOpen: false }]);
  expect(at(second)).toMatchObject([{ host: "127.0.0.1", isOpen: true }]);
  expect(await listenersSeenBy(0)).toEqual([]);
});
