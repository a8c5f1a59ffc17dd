import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

const LOOPBACK = "127.0.0.1";

/**
 * A way to a Postgres, or to another listener, that can fall silent without closing anything: what is sent is lost, on
 * connections that are made meanwhile too. When it is over new connections go through; those of before stay lost. Or it
 * resets every connection, and those that are made meanwhile. Or it holds up those that are made, as a frozen server
 * does, and lets them through later. Or it stalls, as a network does that is away for a while: what is sent meanwhile
 * comes later, on connections of before too.
 */
export class SilentProxy {
  /** What it leads to, by this way. */
  readonly url: string;
  #isSilent = false;
  #isResetting = false;
  #held: (() => void)[] | null = null;
  readonly #sockets: Set<Socket>;
  /** What joins the two sides of each connection, by the side that was accepted. */
  readonly #joins = new Map<Socket, () => void>();

  private constructor(url: string, sockets: Set<Socket>) {
    this.url = url;
    this.#sockets = sockets;
  }

  /** Others find it `at` that address. It ends with the test, or what holds on to it would never end. */
  static async open(databaseUrl: string, at = LOOPBACK): Promise<SilentProxy> {
    const { username, password, hostname, port, pathname } = new URL(databaseUrl);
    const host = decodeURIComponent(hostname);
    const number = Number(port || 5432);
    const credentials = password ? `${username}:${password}` : username;
    return await SilentProxy.#listen(
      () => (host.startsWith("/") ? connect(`${host}/.s.PGSQL.${number}`) : connect(number, host)),
      (ownPort) => `postgres://${credentials}@${at}:${ownPort}${pathname}`,
      at,
    );
  }

  /** The way to a listener of this machine. */
  static async openTo(port: number, at = LOOPBACK): Promise<SilentProxy> {
    return await SilentProxy.#listen(
      () => connect(port, LOOPBACK),
      (ownPort) => `https://${at}:${ownPort}`,
      at,
    );
  }

  static async #listen(
    dial: () => Socket,
    urlOf: (port: number) => string,
    at: string,
  ): Promise<SilentProxy> {
    const sockets = new Set<Socket>();
    const server = createServer((client) => {
      if (proxy.#isResetting) {
        client.on("error", () => {}).resetAndDestroy();
        return;
      }
      const target = dial();
      for (const socket of [client, target]) {
        sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          sockets.delete(socket);
          client.destroy();
          target.destroy();
        });
      }
      const join = () => void client.pipe(target).pipe(client);
      proxy.#joins.set(client, join);
      client.on("close", () => proxy.#joins.delete(client));
      if (proxy.#held) proxy.#held.push(join);
      else join();
      if (proxy.#isSilent) mute([client, target]);
    });
    server.listen(0, at);
    await once(server, "listening");
    const proxy = new SilentProxy(urlOf((server.address() as AddressInfo).port), sockets);
    onTestFinished(async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    });
    return proxy;
  }

  /** How many connections there are now. */
  get count(): number {
    return this.#sockets.size / 2;
  }

  hold(): void {
    this.#held = [];
  }

  stall(): void {
    this.#held = [...this.#joins.values()];
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  letThrough(): void {
    for (const join of this.#held ?? []) join();
    this.#held = null;
  }

  fallSilent(): void {
    this.#isSilent = true;
    mute(this.#sockets);
  }

  reset(): void {
    this.#isResetting = true;
    // The server's own side may be a socket of the file system, which knows no reset.
    for (const socket of this.#sockets) {
      if (socket.remoteFamily === undefined) socket.destroy();
      else socket.resetAndDestroy();
    }
  }

  speak(): void {
    this.#isSilent = false;
    this.#isResetting = false;
  }
}

/** What they receive is read and dropped: else nobody would see that the other side has gone. */
function mute(sockets: Iterable<Socket>): void {
  for (const socket of sockets) socket.unpipe().resume();
}
