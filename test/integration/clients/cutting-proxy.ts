import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Numbers from 0 to 1, the same for the same seed. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Says for each connection after how many bytes of what is answered it is cut, and how; null leaves it alone.
 * `cuts` have been made before.
 */
export type CutPlan = (cuts: number) => { readonly afterBytes: number; readonly isReset: boolean } | null;

/**
 * Cuts at random places among the first `maxBytes`, every fourth of them more likely at the very beginning, in
 * the head of the answer; with a reset or with what looks like an orderly end.
 */
export function randomCuts(count: number, maxBytes: number, random: () => number): CutPlan {
  return (cuts) => {
    if (cuts >= count) return null;
    const afterBytes = random() < 0.25 ? maxBytes ** random() - 1 : maxBytes * random();
    return { afterBytes: Math.floor(afterBytes), isReset: random() < 0.5 };
  };
}

/** A proxy for any TCP service that breaks connections. */
export class CuttingProxy {
  url = "";
  cuts = 0;
  connections = 0;
  /** Bytes of answers that went through. */
  passedBytes = 0;
  /** Connections are refused. */
  isDown = false;
  /** Nothing of what is answered is passed on, and nothing is closed. */
  isSilent = false;
  readonly #plan: CutPlan;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((client) => this.#forward(client));

  private constructor(targetUrl: string, plan: CutPlan) {
    const { hostname, port } = new URL(targetUrl);
    this.#target = { host: hostname, port: Number(port) };
    this.#plan = plan;
  }

  static async open(targetUrl: string, plan: CutPlan = () => null): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(targetUrl, plan);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${(proxy.#server.address() as AddressInfo).port}`;
    onTestFinished(async () => {
      proxy.cutAll();
      await new Promise<void>((resolve) => proxy.#server.close(() => resolve()));
    });
    return proxy;
  }

  /** Breaks every connection that is open now. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  #forward(client: Socket): void {
    this.connections += 1;
    if (this.isDown) {
      client.resetAndDestroy();
      return;
    }
    const service = connect(this.#target);
    const cut = this.#plan(this.cuts);
    let left = cut ? cut.afterBytes : Infinity;
    for (const [socket, other] of [
      [client, service],
      [service, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    client.pipe(service, { end: false });
    service.on("data", (data: Buffer) => {
      if (client.destroyed || this.isSilent) return;
      if (data.length < left) {
        left -= data.length;
        this.passedBytes += data.length;
        if (!client.write(data)) service.pause();
        return;
      }
      this.cuts += 1;
      service.removeAllListeners("data");
      client.write(data.subarray(0, left), () => (cut?.isReset ? client.resetAndDestroy() : client.end()));
      service.destroySoon();
    });
    client.on("drain", () => service.resume());
  }
}
