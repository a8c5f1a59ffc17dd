import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import type { Store } from "../store/store.ts";

export type HeartbeatParts = {
  readonly store: Pick<Store, "claims">;
  readonly clock: Clock;
  readonly log: Log;
  /** This process, among those that share the database. */
  readonly owner: string;
  /** Whether anything here must stay ours. */
  readonly holdsAny: () => boolean;
};

/** How long a claim stands without a sign of life, where several services share a database. */
export const LEASE_MS = 15_000;
export const HEARTBEAT_MS = 5_000;
/** The database's clock was set if it went so differently from ours between two heartbeats. */
const CLOCK_JUMP_MS = 2_000;

/** Says that this service lives, and looks for others on the same database that do not. */
export class Heartbeat {
  readonly #parts: HeartbeatParts;
  #timer: Timer | null = null;
  #isStopping = false;
  /** By how much the database's clock differs from our monotonic one. */
  #offsetMs = 0;
  /** Monotonic; when the database last took a sign of life. */
  #beatAt = 0;
  /** Monotonic; until then no other service counts as dead. */
  #judgesFrom = 0;
  /** The runs of the dead are being looked for. */
  #isJudging = false;

  constructor(parts: HeartbeatParts) {
    this.#parts = parts;
  }

  /**
   * Gives the first sign of life. The database may have come back just now, and with it the others, whose leases have
   * passed: they get time to renew them.
   */
  async begin(): Promise<void> {
    this.#offsetMs = await this.#renew();
    this.#beatAt = this.#parts.clock.monotonic();
    this.#judgesFrom = this.#beatAt + LEASE_MS;
  }

  /** Gives one again and again from now on. */
  start(): void {
    const { clock, log } = this.#parts;
    this.#timer = clock.every(HEARTBEAT_MS, () => {
      this.#beat().catch((error: unknown) =>
        log.error({ err: error }, "could not renew the lease of this service"),
      );
    });
  }

  /** Judges no others any more, and goes on only while anything must stay ours. */
  stop(): void {
    this.#isStopping = true;
  }

  async #beat(): Promise<void> {
    const { clock, holdsAny } = this.#parts;
    if (this.#isStopping && !holdsAny()) {
      this.#timer?.cancel();
      return;
    }
    const offsetMs = await this.#renew();
    const now = clock.monotonic();
    // When somebody has set the database's clock every lease may look old. The same after a time in which we could not
    // renew our own: the others could not either. The living get time to renew theirs.
    const isClockSet = Math.abs(offsetMs - this.#offsetMs) > CLOCK_JUMP_MS;
    if (isClockSet || now - this.#beatAt > 2 * HEARTBEAT_MS) this.#judgesFrom = now + LEASE_MS;
    this.#offsetMs = offsetMs;
    this.#beatAt = now;
    if (this.#isStopping || now < this.#judgesFrom) return;
    await this.#judge();
  }

  /**
   * Takes over the runs of the dead, once at a time: where a table that it writes is locked it waits for long, and
   * several would take all the connections by which the ends of runs are written.
   */
  async #judge(): Promise<void> {
    if (this.#isJudging) return;
    const { store, owner, log } = this.#parts;
    this.#isJudging = true;
    try {
      await store.claims.recover({ owner, isAlone: false });
    } catch (error) {
      log.error({ err: error }, "could not look for runs left by dead services");
    } finally {
      this.#isJudging = false;
    }
  }

  /** By how much the database's clock differs from ours. */
  async #renew(): Promise<number> {
    const { store, owner, clock } = this.#parts;
    const databaseNow = await store.claims.heartbeat({ owner, leaseMs: LEASE_MS });
    return databaseNow - clock.monotonic();
  }
}
