import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { type Peer, type Peers } from "./peers.ts";
import type { NodeTalk } from "./talk.ts";

export type PeerHeartbeatParts = {
  readonly peers: Pick<Peers, "busy" | "abandon">;
  readonly talk: Pick<NodeTalk, "heartbeat">;
  readonly clock: Clock;
  readonly log: Log;
};

const EVERY_MS = 2_000;
/** A node that is silent for the length of a lease counts as lost, even if its lease is renewed. */
const MAX_MISSED = 3;

/**
 * Detects nodes that fall silent while requests to them are in progress, where TCP would retransmit for a quarter of an
 * hour. Heartbeats use connections of their own, so that no call waits for them.
 */
export class PeerHeartbeat {
  readonly #parts: PeerHeartbeatParts;
  /** Unanswered heartbeats in a row. */
  readonly #missed = new Map<string, number>();
  readonly #asked = new Set<string>();
  #timer: Timer | null = null;

  constructor(parts: PeerHeartbeatParts) {
    this.#parts = parts;
  }

  start(): this {
    this.#timer = this.#parts.clock.every(EVERY_MS, () => this.#look());
    return this;
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #look(): void {
    const busy = this.#parts.peers.busy();
    const ids = new Set(busy.map(({ id }) => id));
    for (const id of this.#missed.keys()) if (!ids.has(id)) this.#missed.delete(id);
    for (const peer of busy) if (!this.#asked.has(peer.id)) void this.#ask(peer);
  }

  async #ask(peer: Peer): Promise<void> {
    const { talk, peers, log } = this.#parts;
    this.#asked.add(peer.id);
    try {
      await talk.heartbeat(peer);
      this.#missed.delete(peer.id);
    } catch (error) {
      const missed = (this.#missed.get(peer.id) ?? 0) + 1;
      this.#missed.set(peer.id, missed);
      if (missed < MAX_MISSED) return;
      this.#missed.delete(peer.id);
      log.warn({ err: error, url: peer.url }, "another node has fallen silent; requests to it are lost");
      peers.abandon(peer.id);
    } finally {
      this.#asked.delete(peer.id);
    }
  }
}
