import type { Clock, Timer } from "../../kit/clock.ts";
import type { Tunnel } from "../../kit/websocket/tunnel.ts";

const LOOK_MS = 30_000;

/** All WebSockets of a gateway, on one timer. */
export class Tunnels {
  readonly #clock: Clock;
  readonly #open = new Set<Tunnel>();
  #timer: Timer | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(tunnel: Tunnel): void {
    this.#open.add(tunnel);
    this.#timer ??= this.#clock.every(LOOK_MS, () => this.#open.forEach((each) => each.look()));
  }

  remove(tunnel: Tunnel): void {
    this.#open.delete(tunnel);
    if (this.#open.size > 0) return;
    this.#timer?.cancel();
    this.#timer = null;
  }

  /** Ends those that are left: their replicas have said goodbye. */
  destroy(): void {
    for (const tunnel of this.#open) tunnel.destroy();
  }
}
