import type { Clock, Timer } from "../../kit/clock.ts";
import type { FleetCounts } from "../../replicas/fleet-events.ts";
import type { LiveApp } from "./live-app.ts";
import type { OpenVersion } from "./open-version.ts";

/** In so many steps of equal size calls move to a new version. */
const STEPS = 5;

/** The open versions of one app, and which of them a call goes to. */
export class Traffic {
  #current: OpenVersion;
  /** The version before, while it still gets its share. */
  #previous: OpenVersion | null = null;
  /** Of every five calls, so many go to the current version. */
  #share = STEPS;
  #turn = 0;
  readonly #clock: Clock;
  #timer: Timer | null = null;
  /** Versions that get no new calls, the latest last. */
  #retired: OpenVersion[] = [];

  constructor(current: OpenVersion, clock: Clock) {
    this.#clock = clock;
    this.#current = current;
  }

  get current(): OpenVersion {
    return this.#current;
  }

  /** The one count of all its versions. */
  get counts(): FleetCounts {
    return this.#current.pool.counts;
  }

  /** The replicas that take new calls now. */
  get readyCount(): number {
    return this.#current.pool.readyCount + (this.#previous?.pool.readyCount ?? 0);
  }

  get retired(): readonly OpenVersion[] {
    return this.#retired;
  }

  /** Every open version. */
  all(): OpenVersion[] {
    return [this.#current, ...(this.#previous ? [this.#previous] : []), ...this.#retired];
  }

  /** The version that the next call goes to. */
  pick(): LiveApp {
    if (this.#previous === null) return this.#current.live;
    this.#turn += this.#share;
    if (this.#turn < STEPS) return this.#previous.live;
    this.#turn -= STEPS;
    return this.#current.live;
  }

  /** Those beside which that version cannot start. */
  rivalsOf(next: OpenVersion): OpenVersion[] {
    return this.all().filter((other) => other !== next && other.excludes(next.version));
  }

  /**
   * That version could not start because another has a port that it needs: from now on it cannot start beside any that
   * has replicas. Tells whether that is new.
   */
  contest(next: OpenVersion): boolean {
    const others = this.all().filter((other) => other !== next && !other.isInTheWay && other.isBusy);
    for (const other of others) other.isInTheWay = true;
    return others.length > 0;
  }

  /** The version with that id, if it is open. */
  find(versionId: string): OpenVersion | undefined {
    if (this.#current.version.id === versionId) return this.#current;
    if (this.#previous?.version.id === versionId) return this.#previous;
    return this.#retired.findLast(({ version }) => version.id === versionId);
  }

  /** Sends calls to that version: all of them now, or the last of them after `durationMs`. */
  moveTo(next: OpenVersion, durationMs = 0): void {
    const before = this.#current;
    if (this.#previous === next) this.#previous = null;
    this.#endRollout();
    this.forget(next);
    this.#current = next;
    if (durationMs === 0) {
      this.#retire(before);
      return;
    }
    this.#previous = before;
    this.#share = 1;
    this.#turn = 0;
    this.#timer = this.#clock.every(durationMs / (STEPS - 1), () => this.#step());
  }

  /** The same version with other replicas: its share of the calls stays what it is. */
  replaceCurrent(next: OpenVersion): void {
    this.forget(next);
    this.#retire(this.#current);
    this.#current = next;
  }

  /** A version that gets no new calls, yet. */
  addRetired(open: OpenVersion): void {
    this.#retired.push(open);
  }

  /** It is not among the retired any more. */
  forget(open: OpenVersion): void {
    this.#retired = this.#retired.filter((other) => other !== open);
  }

  /** No more steps. */
  stop(): void {
    this.#timer?.cancel();
  }

  #step(): void {
    this.#share += 1;
    if (this.#share === STEPS) this.#endRollout();
  }

  #endRollout(): void {
    this.#timer?.cancel();
    const previous = this.#previous;
    this.#previous = null;
    this.#share = STEPS;
    if (previous) this.#retire(previous);
  }

  #retire(open: OpenVersion): void {
    open.retire();
    this.#retired.push(open);
  }
}
