import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import type { Peer } from "./peers.ts";
import type { Peers } from "./peers.ts";
import type { NodeTalk } from "./talk.ts";

export type PeerHeartbeatParts = {
  readonly peers: Pick<Peers, "busy" | "abandon">;
  readonly talk: Pick<NodeTalk, "greet">;
  readonly clock: Clock;
  readonly log: Log;
};

const GREET_MS = 2_000;
/** A node that is silent for as long as a lease is lost, even if somebody renews its lease. */
const MAX_MISSED = 3;

/**
 * Finds out that a node has fallen silent while something is under way there: TCP would go on sending for a quarter of
 * an hour. Such a node is greeted on connections of their own, so that no call pays for it.
 */
export class PeerHeartbeat {
  readonly #parts: PeerHeartbeatParts;
  /** How many greetings in a row each has not answered. */
  readonly #missed = new Map<string, number>();
  readonly #greeted = new Set<string>();
  #timer: Timer | null = null;

  constructor(parts: PeerHeartbeatParts) {
    this.#parts = parts;
  }

  start(): this {
    this.#timer = this.#parts.clock.every(GREET_MS, () => this.#beat());
    return this;
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #beat(): void {
    const busy = this.#parts.peers.busy();
    const ids = new Set(busy.map(({ id }) => id));
    for (const id of this.#missed.keys()) if (!ids.has(id)) this.#missed.delete(id);
    for (const peer of busy) if (!this.#greeted.has(peer.id)) void this.#greet(peer);
  }

  async #greet(peer: Peer): Promise<void> {
    const { talk, peers, log } = this.#parts;
    this.#greeted.add(peer.id);
    try {
      await talk.greet(peer);
      this.#missed.delete(peer.id);
    } catch (error) {
      const missed = (this.#missed.get(peer.id) ?? 0) + 1;
      this.#missed.set(peer.id, missed);
      if (missed < MAX_MISSED) return;
      this.#missed.delete(peer.id);
      log.warn(
        { err: error, url: peer.url },
        "another node has fallen silent; what it was asked for is lost",
      );
      peers.abandon(peer.id);
    } finally {
      this.#greeted.delete(peer.id);
    }
  }
}
