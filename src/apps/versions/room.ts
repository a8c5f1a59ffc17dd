import type { OpenVersion } from "./open-version.ts";
import type { Traffic } from "./traffic.ts";

/**
 * The ports that a server has in its code. A version that wants the same ports can start only when those beside which
 * it cannot run have ended; their calls wait from `clear` to `leave`.
 */
export class Room {
  readonly #next: OpenVersion;
  readonly #traffic: Traffic | undefined;
  #rivals: readonly OpenVersion[];

  constructor(next: OpenVersion, traffic: Traffic | undefined) {
    this.#next = next;
    this.#traffic = traffic;
    this.#rivals = traffic?.rivalsOf(next) ?? [];
  }

  /** Whether something is in the way. */
  get isTaken(): boolean {
    return this.#rivals.length > 0;
  }

  /** Ends what is in the way, after the calls it holds; rejects with the signal's reason. */
  async clear(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#rivals.map(({ pool }) => pool.vacate(signal)));
    signal.throwIfAborted();
  }

  /** A port was in use: whether a version of the same app may be what is in the way. If so, `clear` ends it too. */
  widen(): boolean {
    if (!this.#traffic?.contest(this.#next)) return false;
    this.#rivals = this.#traffic.rivalsOf(this.#next);
    return true;
  }

  /** What was ended may start again, if it still has calls. */
  leave(): void {
    for (const { pool } of this.#rivals) pool.fleet.occupy();
  }
}
