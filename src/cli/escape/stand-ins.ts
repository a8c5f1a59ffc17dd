import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";

/** Stands in for an address where clouds tell a machine its own secrets. Nothing ever leaves this machine. */
export const METADATA_STAND_IN = "127.0.0.66";
/** Stands in for any private address. */
export const PRIVATE_STAND_IN = "127.0.0.1";

/** Servers on this machine that no app may reach. */
export class StandIns {
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();

  /** Listens, and tells where. */
  async open(): Promise<Readonly<Record<string, unknown>>> {
    return {
      metadata_host: METADATA_STAND_IN,
      metadata_port: await this.#listen(METADATA_STAND_IN),
      private_host: PRIVATE_STAND_IN,
      private_port: await this.#listen(PRIVATE_STAND_IN),
    };
  }

  /** A server that no app has used before; gives its port. */
  async openAnother(): Promise<number> {
    return await this.#listen(PRIVATE_STAND_IN);
  }

  close(): void {
    for (const server of this.#servers) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async #listen(host: string): Promise<number> {
    const server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => {}); // Whoever came has gone.
      socket.on("close", () => this.#sockets.delete(socket));
    });
    this.#servers.push(server);
    server.listen(0, host);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }
}
