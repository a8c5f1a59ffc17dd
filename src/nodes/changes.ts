import { backoffMs } from "../kit/retry.ts";
import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import type { ChangePosition, Topic } from "../store/nodes/changes.ts";
import type { Store } from "../store/store.ts";

type ChangesParts = {
  readonly store: Pick<Store, "changes" | "listen">;
  readonly clock: Clock;
  readonly log: Log;
};

type Hear = (subjects: readonly string[]) => void | Promise<void>;

/** With the time for the query, changes are known within a second even without notifications. */
const LOOK_EVERY_MS = 900;
/** Spreads the queries of many nodes. */
const SPREAD_MS = 200;
/** Minimum gap between queries, since many nodes may notify about the same change. */
const MIN_GAP_MS = 20;
/** While the database does not answer. */
const LONGEST_GAP_MS = 5_000;
const PRUNE_EVERY_MS = 60_000;

/**
 * Tells listeners what other nodes have changed, within a second: polls the table of changes, and queries it at once
 * when notified. Each change, also of this node, is reported at least once.
 */
export class Changes {
  readonly #parts: ChangesParts;
  readonly #byTopic = new Map<Topic, ChangeListener[]>();
  readonly #ofAll: ChangeListener[] = [];
  #position: ChangePosition;
  #timer: Timer | null = null;
  #pruning: Timer | null = null;
  #stopListening: (() => void) | null = null;
  #isLooking = false;
  #isHinted = false;
  #lookedAt = 0;
  #failures = 0;
  #isStopped = false;

  private constructor(parts: ChangesParts, position: ChangePosition) {
    this.#parts = parts;
    this.#position = position;
  }

  /** Once started, it reports all changes from now on. */
  static async open(parts: ChangesParts): Promise<Changes> {
    const { position } = await parts.store.changes.since(null);
    return new Changes(parts, position);
  }

  /** Calls `hear` with the changes of a topic, at least once each; after a failure again a second later. */
  on(topic: Topic, hear: Hear): void {
    const listeners = this.#byTopic.get(topic) ?? [];
    this.#byTopic.set(topic, [...listeners, this.#listener(topic, hear)]);
  }

  /** Calls `hear` when anything may have changed and caches must be dropped. */
  onReset(hear: () => void | Promise<void>): void {
    this.#ofAll.push(this.#listener("reset", hear));
  }

  start(): void {
    const { store, clock } = this.#parts;
    this.#stopListening = store.listen(() => this.#hint());
    this.#pruning = clock.every(PRUNE_EVERY_MS, () => void this.#prune());
    void this.#look();
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopListening?.();
    this.#timer?.cancel();
    this.#pruning?.cancel();
  }

  #listener(topic: string, hear: Hear): ChangeListener {
    return new ChangeListener(hear, (error) =>
      this.#parts.log.warn({ err: error, detail: topic }, "could not handle a change; retrying"),
    );
  }

  #hint(): void {
    this.#isHinted = true;
    if (!this.#isLooking) this.#lookIn(this.#lookedAt + MIN_GAP_MS - this.#parts.clock.monotonic());
  }

  #lookIn(ms: number): void {
    this.#timer?.cancel();
    if (this.#isStopped) return;
    if (ms <= 0) void this.#look();
    else this.#timer = this.#parts.clock.after(ms, () => void this.#look());
  }

  async #look(): Promise<void> {
    const { clock } = this.#parts;
    this.#isLooking = true;
    this.#isHinted = false;
    this.#lookedAt = clock.monotonic();
    const isRead = await this.#read();
    this.#isLooking = false;
    this.#failures = isRead ? 0 : this.#failures + 1;
    if (!isRead) this.#lookIn(backoffMs(this.#failures, LOOK_EVERY_MS, LONGEST_GAP_MS));
    else if (this.#isHinted) this.#hint();
    else this.#lookIn(LOOK_EVERY_MS - Math.random() * SPREAD_MS);
  }

  async #read(): Promise<boolean> {
    const { store, log } = this.#parts;
    try {
      const { position, changes, isWhole } = await store.changes.since(this.#position);
      if (this.#isStopped) return true;
      this.#position = position;
      if (!isWhole) {
        log.info("too many changes by other services to list; clearing all caches");
        for (const listener of this.#ofAll) listener.tell([""]);
      }
      const byTopic = Map.groupBy(changes, ({ topic }) => topic);
      for (const [topic, listeners] of this.#byTopic) {
        const subjects = (byTopic.get(topic) ?? []).map(({ subject }) => subject);
        // Also of none: it may have failed before.
        for (const listener of listeners) listener.tell(subjects);
      }
      if (isWhole) for (const listener of this.#ofAll) listener.tell([]);
      return true;
    } catch (error) {
      // The store logs a database that does not answer.
      if (this.#failures === 0) log.warn({ err: error }, "could not look for changes by other services");
      return false;
    }
  }

  async #prune(): Promise<void> {
    try {
      while (!this.#isStopped && (await this.#parts.store.changes.prune()) > 0);
    } catch {
      // The timer, or another node, tries again.
    }
  }
}

/** Calls a listener, one call at a time, until it succeeds; changes that come meanwhile are reported together. */
class ChangeListener {
  readonly #hear: Hear;
  readonly #onFailure: (error: unknown) => void;
  /** Changes that it has not handled yet. */
  readonly #owed = new Set<string>();
  #isBusy = false;

  constructor(hear: Hear, onFailure: (error: unknown) => void) {
    this.#hear = hear;
    this.#onFailure = onFailure;
  }

  /** Tells these changes, and those that failed before. */
  tell(subjects: readonly string[]): void {
    for (const subject of subjects) this.#owed.add(subject);
    if (!this.#isBusy) void this.#work();
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    while (this.#owed.size > 0) {
      const told = [...this.#owed];
      this.#owed.clear();
      try {
        await this.#hear(told);
      } catch (error) {
        for (const subject of told) this.#owed.add(subject);
        this.#onFailure(error);
        break;
      }
    }
    this.#isBusy = false;
  }
}
