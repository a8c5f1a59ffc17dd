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
  /** Where the others reach it, and what they are to know of it; null for a service alone. */
  readonly self: { readonly url: string; readonly details: () => NodeDetails } | null;
};

/** How long a node counts as alive after a sign of life; what it holds is its own for that long. */
export const LEASE_MS = 6_000;
export const RENEW_MS = 2_000;
/** The database's clock was set if it went so differently from ours between two signs of life. */
const CLOCK_JUMP_MS = 2_000;

/** The one lease of this node: says that it lives, and knows for how long the others believe it. */
export class NodeLease {
  readonly #parts: NodeLeaseParts;
  #timer: Timer | null = null;
  #isAnnounced = false;
  #isLeaving = false;
  #isOver = false;
  #renewing: Promise<void> | null = null;
  /** By how much the database's clock differs from our monotonic one; null before the first sign of life. */
  #offsetMs: number | null = null;
  /** Monotonic; when the latest sign of life that the database took was given. */
  #givenAt = Number.NEGATIVE_INFINITY;
  #heldSince = Number.POSITIVE_INFINITY;
  /** Monotonic; until then no other node counts as dead. */
  #judgesFrom = Number.POSITIVE_INFINITY;

  constructor(parts: NodeLeaseParts) {
    this.#parts = parts;
  }

  get id(): string {
    return this.#parts.id;
  }

  /** Whether the others believe that this node lives, as far as it can know. */
  get isHeld(): boolean {
    return this.#parts.clock.monotonic() < this.#givenAt + LEASE_MS;
  }

  /** Monotonic; from then on it has been held without a gap. */
  get heldSince(): number {
    return this.#heldSince;
  }

  /** Whether it is about to stop, and takes no more apps. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /**
   * Whether another node may be taken for dead because its lease has passed. Not for a while after the start, after a
   * time in which our own could not be renewed, and after somebody has set the database's clock: the others' may look
   * old without being so, and they get time to renew theirs.
   */
  get mayJudge(): boolean {
    return this.isHeld && this.#parts.clock.monotonic() >= this.#judgesFrom;
  }

  /** Gives the first sign of life. */
  async begin(): Promise<void> {
    await this.#renew();
  }

  /** Gives one again and again from now on. */
  start(): void {
    this.#timer = this.#parts.clock.every(RENEW_MS, () => void this.#renewSafely());
  }

  /** The others know of it from now on, and send it requests. */
  async announce(): Promise<void> {
    this.#isAnnounced = true;
    await this.#renewing;
    await this.#renew();
  }

  /** The others take over what it has, and give it nothing more. */
  async startLeaving(): Promise<void> {
    this.#isLeaving = true;
    await this.#renewing;
    await this.#renewSafely();
  }

  /** It has let go of everything. */
  async leave(): Promise<void> {
    this.#isOver = true;
    this.#timer?.cancel();
    await this.#renewing;
    const { store, id, log } = this.#parts;
    await store.nodes
      .leave(id)
      .catch((error: unknown) => log.warn({ err: error }, "could not give up this node's lease; it lapses"));
  }

  /** One at a time; a failure is told, and the next one is tried when it is due. */
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
      isLeaving: this.#isLeaving,
    });
    const offsetMs = databaseNow - clock.monotonic();
    const isFirst = this.#offsetMs === null;
    const isClockSet = Math.abs(offsetMs - (this.#offsetMs ?? offsetMs)) > CLOCK_JUMP_MS;
    if (isFirst || isClockSet || givenAt - this.#givenAt > 2 * RENEW_MS)
      this.#judgesFrom = clock.monotonic() + LEASE_MS;
    if (givenAt - this.#givenAt >= LEASE_MS) this.#heldSince = givenAt;
    this.#offsetMs = offsetMs;
    this.#givenAt = givenAt;
  }
}
