import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import type { NodeDetails } from "../model/node.ts";
import type { Store } from "../store/store.ts";

export type NodeLeaseParts = {
  readonly store: Pick<Store, "nodes">;
  readonly clock: Clock;
  readonly log: Log;
  /** This process, among those that share the database. */
  readonly id: string;
  /** Its address and details for the other nodes; null for a service alone. */
  readonly self: { readonly url: string; readonly details: () => NodeDetails } | null;
};

/** How long a lease lasts; until then no other node takes what the node owns. */
export const LEASE_MS = 6_000;
export const RENEW_MS = 2_000;
/** A larger difference between two renewals means that the database's clock was set. */
const CLOCK_JUMP_MS = 2_000;

/** The lease of this node: renews it, and knows how long it is valid. */
export class NodeLease {
  readonly id: string;
  /** The node is stopping and takes no more apps. */
  isLeaving = false;
  /** Since when it has been held without a gap; monotonic. */
  heldSince = Number.POSITIVE_INFINITY;
  readonly #parts: NodeLeaseParts;
  #timer: Timer | null = null;
  #isAnnounced = false;
  #isOver = false;
  #renewing: Promise<void> | null = null;
  /** The offset of the database's clock to the monotonic one; null before the first renewal. */
  #offsetMs: number | null = null;
  /** When the latest successful renewal was sent; monotonic. */
  #givenAt = Number.NEGATIVE_INFINITY;
  /** Until then no other node counts as dead; monotonic. */
  #judgesFrom = Number.POSITIVE_INFINITY;

  constructor(parts: NodeLeaseParts) {
    this.#parts = parts;
    this.id = parts.id;
  }

  /** Whether the lease is valid, as far as this node can know. */
  get isHeld(): boolean {
    return this.#parts.clock.monotonic() < this.#givenAt + LEASE_MS;
  }

  /**
   * Whether another node with an expired lease may be taken for dead. Not shortly after the start, after a gap in this
   * node's own renewals, or after the database's clock was set: other leases may only look expired, and get time to be
   * renewed.
   */
  get mayJudge(): boolean {
    return this.isHeld && this.#parts.clock.monotonic() >= this.#judgesFrom;
  }

  /** The database's time as this node knows it from its latest renewal, whatever somebody has set that clock to since. */
  get reckonedNow(): number {
    return Math.floor(this.#parts.clock.monotonic() + (this.#offsetMs ?? Number.NEGATIVE_INFINITY));
  }

  async begin(): Promise<void> {
    await this.#renew();
  }

  /** Renews it regularly from now on. */
  start(): void {
    this.#timer = this.#parts.clock.every(RENEW_MS, () => void this.#renewSafely());
  }

  /** Makes the node known to the others, which send it requests from now on. */
  async announce(): Promise<void> {
    this.#isAnnounced = true;
    await this.#renewing;
    await this.#renew();
  }

  /** The others take over its apps and give it no more. */
  async startLeaving(): Promise<void> {
    this.isLeaving = true;
    await this.#renewing;
    await this.#renewSafely();
  }

  async leave(): Promise<void> {
    this.#isOver = true;
    this.#timer?.cancel();
    await this.#renewing;
    const { store, id, log } = this.#parts;
    await store.nodes
      .leave(id)
      .catch((error: unknown) => log.warn({ err: error }, "could not give up this node's lease; it lapses"));
  }

  /** One at a time; after a failure, the next one comes when it is due. */
  #renewSafely(): Promise<void> {
    this.#renewing ??= this.#renew()
      .catch((error: unknown) =>
        this.#parts.log.error({ err: error }, "could not renew the lease of this node"),
      )
      .finally(() => (this.#renewing = null));
    return this.#renewing;
  }

  async #renew(): Promise<void> {
    if (this.#isOver) return;
    const { store, clock, id } = this.#parts;
    const self = this.#isAnnounced ? this.#parts.self : null;
    const givenAt = clock.monotonic();
    const databaseNow = await store.nodes.renew({
      owner: id,
      leaseMs: LEASE_MS,
      url: self?.url ?? null,
      details: self?.details() ?? null,
      isLeaving: this.isLeaving,
    });
    const offsetMs = databaseNow - clock.monotonic();
    const isFirst = this.#offsetMs === null;
    const isClockSet = Math.abs(offsetMs - (this.#offsetMs ?? offsetMs)) > CLOCK_JUMP_MS;
    if (isFirst || isClockSet || givenAt - this.#givenAt > 2 * RENEW_MS)
      this.#judgesFrom = clock.monotonic() + LEASE_MS;
    if (givenAt - this.#givenAt >= LEASE_MS) this.heldSince = givenAt;
    this.#offsetMs = offsetMs;
    this.#givenAt = givenAt;
  }
}
