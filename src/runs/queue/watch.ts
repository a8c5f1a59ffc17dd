import type { Clock, Timer } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { QueuePlace } from "../../model/run.ts";
import type { Call } from "../../replicas/call.ts";
import type { RunTarget } from "../../replicas/pool.ts";
import type { OutlookParts, QueueOutlook, WaitingRun } from "./outlook.ts";

/** Between two looks at an app's queue. */
const LOOK_MS = 1_000;
/** Stored runs of an app that are counted anew at each look; the others have moved up by those that left. */
const COUNTED_PER_LOOK = 20;
/** A later or earlier start is told if it is that far from the one told before, in milliseconds and as a part of the wait. */
const TOLD_MS = 2_000;
const TOLD_PART = 0.1;

type WatchParts = Pick<OutlookParts, "paces"> & {
  readonly clock: Clock;
  /** Runs are due by this one. */
  readonly steadyClock: Clock;
  readonly log: Log;
  readonly outlook: QueueOutlook;
};

/** Gets a run's place whenever it has changed, null once it waits no more. */
type Tell = (place: QueuePlace | null) => void;

type Watcher = {
  readonly run: WaitingRun;
  readonly tell: Tell;
  /** Of a stored run when it was last counted; null if it does not wait for its turn, undefined before. */
  position?: number | null;
  /** How many runs had left the queue then. */
  takenThen: number;
  /** The number of that count. */
  counted: number;
  told: QueuePlace | null;
};

type Slots = RunTarget["slots"];

/**
 * Tells those who watch waiting runs where they stand. One look a second for all that watch runs of an app: the slots are
 * looked through once, and a few of the stored runs are counted. Costs nothing while no run is watched.
 */
export class QueueWatch {
  readonly #parts: WatchParts;
  readonly #watchers = new Map<number, Set<Watcher>>();
  readonly #looking = new Set<number>();
  #counts = 0;
  #timer: Timer | null = null;

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /** Tells the run's place, now and when it changes, until the returned function is called. */
  watch(run: WaitingRun, tell: Tell): () => void {
    const { appNumber } = run;
    const watcher: Watcher = { run, tell, takenThen: 0, counted: 0, told: null };
    const watchers = this.#watchers.get(appNumber) ?? new Set();
    this.#watchers.set(appNumber, watchers.add(watcher));
    this.#timer ??= this.#parts.clock.every(LOOK_MS, () => this.#lookAtAll());
    // In a moment, once for all that come now.
    setImmediate(() => void this.#look(appNumber, true));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(appNumber) === watchers) this.#watchers.delete(appNumber);
      if (this.#watchers.size === 0) this.stop();
    };
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #lookAtAll(): void {
    for (const appNumber of this.#watchers.keys()) void this.#look(appNumber, false);
  }

  /** `isFirst`: for those that have no place yet. */
  async #look(appNumber: number, isFirst: boolean): Promise<void> {
    if (this.#looking.has(appNumber)) return;
    this.#looking.add(appNumber);
    let hasFailed = false;
    try {
      const watchers = [...(this.#watchers.get(appNumber) ?? [])];
      this.#tellLive(watchers.filter(({ run, told }) => run.live && !(isFirst && told)));
      await this.#tellStored(
        appNumber,
        watchers.filter(({ run, position }) => !run.live && !(isFirst && position !== undefined)),
      );
    } catch (error) {
      hasFailed = true;
      this.#parts.log.debug({ err: error, appNumber }, "could not look at a queue; looking again");
    } finally {
      this.#looking.delete(appNumber);
    }
    // Those that came meanwhile.
    const isNew = ({ run, position }: Watcher): boolean => !run.live && position === undefined;
    const watchers = [...(this.#watchers.get(appNumber) ?? [])];
    if (isFirst && !hasFailed && watchers.some(isNew)) void this.#look(appNumber, true);
  }

  #tellLive(watchers: readonly Watcher[]): void {
    const bySlots = Map.groupBy(watchers, ({ run }): Slots => run.live!.request.target.slots);
    for (const [slots, some] of bySlots) {
      const seen = slots.outlook(new Set(some.map(({ run }): Call => run.live!.call)));
      for (const watcher of some) this.#tell(watcher, this.#parts.outlook.ofLive(watcher.run.live!, seen));
    }
  }

  async #tellStored(appNumber: number, watchers: readonly Watcher[]): Promise<void> {
    const { paces, outlook } = this.#parts;
    const uncounted = watchers.filter(({ position }) => position === undefined);
    const counted = watchers.filter(({ position }) => position !== undefined);
    const next = counted.toSorted((a, b) => a.counted - b.counted).slice(0, COUNTED_PER_LOOK);
    // One after the other: a crowd must not use up the connections of the database.
    for (const watcher of [...uncounted, ...next]) {
      const takenThen = paces.taken(appNumber);
      watcher.position = await outlook.positionOf(watcher.run);
      watcher.takenThen = takenThen;
      watcher.counted = this.#counts += 1;
    }
    const taken = paces.taken(appNumber);
    for (const watcher of watchers) {
      const { position = null, takenThen } = watcher;
      const moved = position === null ? null : Math.max(1, position - (taken - takenThen));
      this.#tell(watcher, moved === null ? null : outlook.ofStored(appNumber, moved));
    }
  }

  #tell(watcher: Watcher, place: QueuePlace | null): void {
    const { told, run } = watcher;
    if (told === null && place === null) return;
    if (!this.#watchers.get(run.appNumber)?.has(watcher)) return;
    if (told && place && !isNews(told, place, this.#parts.steadyClock.now())) return;
    watcher.told = place;
    watcher.tell(place);
  }
}

/** Whether the difference is worth telling. */
function isNews(told: QueuePlace, place: QueuePlace, now: number): boolean {
  if (told.position !== place.position || told.phase !== place.phase) return true;
  const [before, after] = [told.expectedStartAt, place.expectedStartAt];
  if (before === null || after === null) return before !== after;
  return Math.abs(after - before) > Math.max(TOLD_MS, (after - now) * TOLD_PART);
}
