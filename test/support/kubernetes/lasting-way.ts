import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** What a Service is in a cluster that has kube-proxy: one address that leads to whoever is there at the moment. */
export async function lastingWay(at: string, place: () => Promise<string>, port: number): Promise<string> {
  const sockets = new Set<Socket>();
  const join = async (client: Socket): Promise<void> => {
    const server = connect(port, await place());
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => other.destroy()).on("close", () => other.destroy());
      one.pipe(other);
    }
  };
  const way = createServer((client) => void join(client).catch(() => client.destroy()));
  way.listen(0, at);
  await once(way, "listening");
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => way.close(resolve));
  });
  return `https://${at}:${(way.address() as AddressInfo).port}`;
}
