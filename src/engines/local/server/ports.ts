import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { SERVER_PORTS } from "../../../host/walls/network.ts";
import type { PortRange } from "../../../host/walls/network.ts";

/**
 * Gives each server a port of the reserved range. One after the other, and not the one just given back: what is left
 * of old connections may hold it for a minute.
 */
export class Ports {
  readonly #range: PortRange;
  readonly #given = new Set<number>();
  #next: number;

  constructor(range = SERVER_PORTS) {
    this.#range = range;
    // Another service of the machine may use the same range.
    this.#next = randomInt(range.first, range.last + 1);
  }

  /** A port on which nobody listens; null when there is none. */
  async take(): Promise<number | null> {
    const { first, last } = this.#range;
    for (let tries = first; tries <= last; tries++) {
      const port = this.#turn();
      if (this.#given.has(port)) continue;
      this.#given.add(port);
      if (await isFree(port)) return port;
      this.#given.delete(port);
    }
    return null;
  }

  /** A port of another machine, which no other server of this service has anywhere; null when there is none. */
  takeElsewhere(): number | null {
    const { first, last } = this.#range;
    for (let tries = first; tries <= last; tries++) {
      const port = this.#turn();
      if (this.#given.has(port)) continue;
      this.#given.add(port);
      return port;
    }
    return null;
  }

  giveBack(port: number): void {
    this.#given.delete(port);
  }

  #turn(): number {
    const { first, last } = this.#range;
    const port = this.#next;
    this.#next = port === last ? first : port + 1;
    return port;
  }
}

/** Whether anybody could listen there, on any address. */
async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ port, host: "0.0.0.0", exclusive: true }, resolve);
    });
    return true;
  } catch {
    return false;
  } finally {
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  }
}
