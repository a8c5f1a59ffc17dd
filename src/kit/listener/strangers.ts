import type { Socket } from "node:net";
import { addressKey } from "./client-address.ts";

type Stranger = { readonly socket: Socket; readonly address: string };

/**
 * Connections that have not shown who they are, up to so many. If one too many comes, the oldest goes of the address that
 * has most of them: a flood from one address turns away nobody else. Those of unix sockets count as one address.
 */
export class Strangers<Key = Socket> {
  readonly #most: number;
  /** The oldest first. */
  readonly #all = new Map<Key, Stranger>();

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Counts a connection that was just accepted, until it is known or closed. */
  meet(key: Key, socket: Socket): void {
    if (this.#all.size >= this.#most) this.#turnAway();
    const stranger = { socket, address: addressKey(socket.remoteAddress ?? "") };
    this.#all.set(key, stranger);
    socket.once("close", () => this.#all.get(key) === stranger && this.know(key));
  }

  /** It is a stranger no longer. */
  know(key: Key): void {
    this.#all.delete(key);
  }

  close(): void {
    for (const { socket } of this.#all.values()) socket.destroy();
  }

  #turnAway(): void {
    const crowds = Map.groupBy(this.#all, ([, { address }]) => address);
    const [largest = []] = [...crowds.values()].toSorted((one, other) => other.length - one.length);
    const [oldest] = largest;
    if (!oldest) return;
    const [key, { socket }] = oldest;
    this.#all.delete(key);
    socket.destroy();
  }
}

/** A key that a `TLSSocket` and the socket which it is around have in common; neither tells the other. */
export function connectionKey({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
