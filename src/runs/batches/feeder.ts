import type { Clock, Timer } from "../../kit/clock.ts";
import { Condition, forEachConcurrently } from "../../kit/concurrency.ts";
import { RUN_AHEAD_MS, UuidSource } from "../../kit/ids.ts";
import type { Log } from "../../kit/log.ts";
import type { NewDelivery } from "../../model/delivery.ts";
import { AppError } from "../../model/errors.ts";
import { type LineBatch, rateAfter } from "../../model/line-batch.ts";
import type { RunKey } from "../../model/run.ts";
import type { Owners } from "../../nodes/owners.ts";
import type { RunTarget } from "../../replicas/pool.ts";
import { batchRecord } from "../../shapes/batches.ts";
import { ALL_TIMES } from "../../store/batches/batch-lines.ts";
import type { OpenBatch } from "../../store/batches/line-batches.ts";
import type { Store } from "../../store/store.ts";
import type { StorageWatch } from "../../store/upkeep/storage-watch.ts";
import type { LargePayloads } from "../large-payloads.ts";
import { BATCH_KEY_MS } from "./upload.ts";
import { fedLines, type Feeding, LINE_AHEAD_MS, WaitingLines } from "./waiting-lines.ts";

export type FeederParts = {
  readonly store: Store;
  readonly steadyClock: Clock;
  readonly log: Log;
  readonly reserve: Pick<StorageWatch, "isLow">;
  /** The current target of an app; null for an app that takes no runs here. */
  readonly target: (appNumber: number) => RunTarget | null;
  /** Null if this is the only service. */
  readonly owners: Pick<Owners, "mayClaim" | "lookAfter"> | null;
  /** Null if all payloads are in the database. */
  readonly large: LargePayloads | null;
  /** The store holds new runs of that app. */
  readonly wake: (appNumber: number) => void;
  /** Throws if the run has ended, or cannot be cancelled here. */
  readonly cancel: (run: RunKey) => Promise<void>;
  readonly onDeliveries: () => void;
  /** Whether the app's queue takes no more runs. */
  readonly isDraining: (appNumber: number) => boolean;
};

/** How often the store is looked at without a reason; and while the lines of a batch end. */
const LOOK_MS = 1_000;
const BUSY_MS = 100;
/** Lines that one write takes. */
const FEED_LINES = 500;
/** Lines of a batch in the queue: enough for 20,000 that end in a second, and few in the way of other runs. */
const WINDOW = 2_000;
/** Open lines that are looked at together. */
const LOOKED_AT = 20_000;
const CANCELS_AT_ONCE = 50;
/** Lines without runs that are cancelled before other batches have their turn. */
const CANCELLED_AT_ONCE = 10_000;
/** An upload without a key cannot be continued; its own service may have died. */
const UPLOAD_MS = 3600 * 1000;
/** Apps whose batches go on at the same time. */
const APPS_AT_ONCE = 8;

/** Of a batch that has ended. */
const NO_LINES = { running: 0, queue: "open" } as const;
/** A line that is not stored any more: it is not JSON. */
const NO_LINE = Buffer.of(0);

/**
 * Lets the lines of the batches of this node's apps run: keeps a bounded number of them in the queue, counts those that
 * have ended, and ends the batch after its last one. All it knows is in the store, so another node may go on at any point.
 */
export class BatchFeeder {
  /** Notified when lines have ended, or a batch has. */
  readonly changes = new Condition();
  readonly #parts: FeederParts;
  readonly #ids = new UuidSource(RUN_AHEAD_MS);
  readonly #lines: WaitingLines;
  #timer: Timer | null = null;
  #soon: Timer | null = null;
  #looking: Promise<void> | null = null;
  /** By app: its batches go on one after the other, and delay no other app's. */
  readonly #advancing = new Map<number, Promise<void>>();
  /** Those of apps that wait for their turn, in that order. */
  readonly #waiting = new Map<number, readonly OpenBatch[]>();
  #isWanted = false;
  #isStopping = false;

  constructor(parts: FeederParts) {
    this.#parts = parts;
    this.#lines = new WaitingLines(parts.store);
  }

  start(): void {
    this.#timer = this.#parts.steadyClock.every(LOOK_MS, () => this.wake());
    this.wake();
  }

  /** Begins nothing more; resolves when writes under way are done. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#timer?.cancel();
    this.#soon?.cancel();
    this.changes.notify();
    await this.#looking;
    await Promise.all(this.#advancing.values());
  }

  /** Batches may have changed. */
  wake(): void {
    this.#isWanted = true;
    this.#looking ??= this.#lookAgain().finally(() => (this.#looking = null));
  }

  /** Cancels a batch, or gives its upload up. False if it has ended, or is being cancelled. */
  async cancel({ number }: Pick<LineBatch, "number">): Promise<boolean> {
    const { lineBatches } = this.#parts.store;
    const now = this.#parts.steadyClock.now();
    const isCancelled =
      (await lineBatches.cancel({ number, now })) ||
      (await lineBatches.abandon({ number, now, delivery: null })) ||
      // Its upload was completed between the two.
      (await lineBatches.cancel({ number, now }));
    if (isCancelled) this.wake();
    return isCancelled;
  }

  async #lookAgain(): Promise<void> {
    while (this.#isWanted && !this.#isStopping) {
      this.#isWanted = false;
      await this.#look();
    }
  }

  /** Lets the batches of this node's apps go on. */
  async #look(): Promise<void> {
    const { store, log, owners, target } = this.#parts;
    try {
      const open = await store.lineBatches.open();
      this.#lines.keepOnly(open);
      const byApp = new Map<number, OpenBatch[]>();
      const unserved = new Set<number>();
      for (const batch of open) {
        if (this.#isStopping) return;
        const { appNumber } = batch;
        if (batch.isOrphan) await this.#drop(batch);
        else if (owners && !owners.mayClaim(appNumber)) unserved.add(appNumber);
        else if (batch.state === "uploading") await this.#abandonOld(batch);
        else if (target(appNumber)) byApp.set(appNumber, [...(byApp.get(appNumber) ?? []), batch]);
        else unserved.add(appNumber);
      }
      this.#begin(byApp);
      if (unserved.size > 0) await owners?.lookAfter([...unserved]);
    } catch (error) {
      if (!this.#isStopping) log.error({ err: error }, "could not look after batches; retrying");
    }
  }

  /** Lets batches go on where none of the same app do, as many apps at once as may; the others wait for their turn. */
  #begin(byApp: ReadonlyMap<number, readonly OpenBatch[]>): void {
    for (const app of this.#waiting.keys()) if (!byApp.has(app)) this.#waiting.delete(app);
    for (const [app, batches] of byApp) if (!this.#advancing.has(app)) this.#waiting.set(app, batches);
    this.#fillUp();
  }

  #fillUp(): void {
    for (const [app, batches] of this.#waiting) {
      if (this.#advancing.size >= APPS_AT_ONCE || this.#isStopping) return;
      this.#waiting.delete(app);
      this.#advancing.set(app, this.#advanceApp(app, batches));
    }
  }

  /** Never rejects. */
  async #advanceApp(app: number, batches: readonly OpenBatch[]): Promise<void> {
    // Whether lines have ended, or may soon.
    let isBusy = false;
    for (const batch of batches) if (!this.#isStopping) isBusy = (await this.#advanceSafely(batch)) || isBusy;
    this.#advancing.delete(app);
    if (this.#isStopping) return;
    if (isBusy) this.#soon ??= this.#parts.steadyClock.after(BUSY_MS, () => this.#again());
    this.#fillUp();
  }

  #again(): void {
    this.#soon = null;
    this.wake();
  }

  /** A batch that cannot go on now must not stop the others. */
  async #advanceSafely(batch: OpenBatch): Promise<boolean> {
    try {
      return await this.#advance(batch);
    } catch (error) {
      const { log } = this.#parts;
      if (!this.#isStopping) log.error({ err: error, batch: batch.id }, "a batch could not go on; retrying");
      return false;
    }
  }

  async #advance(batch: OpenBatch): Promise<boolean> {
    const isCancelling = batch.state === "cancelling";
    const now = this.#parts.steadyClock.now();
    if (isCancelling) await this.#cancelOpen(batch);
    const { open, collected } = await this.#collect(batch, isCancelling ? ALL_TIMES : now + LINE_AHEAD_MS);
    const ended = batch.ended + collected;
    const hasFed = await this.#feedAll(batch, open);
    if (hasFed) this.#parts.wake(batch.appNumber);
    if (ended >= batch.total) await this.#end(batch, ended);
    if (collected > 0) this.changes.notify();
    return collected > 0 || hasFed || isCancelling;
  }

  /** Fills the batch's share of the queue up, first with delayed lines whose time has come. Whether it has. */
  async #feedAll(batch: OpenBatch, open: number): Promise<boolean> {
    const { appNumber, state, total } = batch;
    const isCancelling = state === "cancelling";
    // A queue that is drained becomes empty.
    if (!isCancelling && this.#parts.isDraining(appNumber)) return false;
    let { fed, delayed } = batch;
    let room = isCancelling ? CANCELLED_AT_ONCE : Math.max(0, this.#windowOf(appNumber) - open);
    for (let count = 1; delayed > 0 && room > 0 && count > 0 && !this.#isStopping; room -= count) {
      count = await this.#feedDelayed(batch, delayed, Math.min(FEED_LINES, room));
      delayed -= count;
    }
    for (let count = 1; fed < total && room > 0 && count > 0 && !this.#isStopping; room -= count) {
      count = await this.#feed(batch, fed, Math.min(FEED_LINES, room));
      fed += count;
    }
    return fed > batch.fed || delayed < batch.delayed;
  }

  /** More for an app with very many slots; no more than half of what may wait, or other callers would be refused. */
  #windowOf(appNumber: number): number {
    const config = this.#parts.target(appNumber)?.config;
    const slots = config ? config.scaling.maxReplicas * config.scaling.replicaConcurrency : 0;
    const window = Math.min(LOOKED_AT, Math.max(WINDOW, 2 * slots));
    const most = config?.queue?.maxBacklog ?? null;
    return most === null ? window : Math.min(window, slots + Math.ceil(most / 2));
  }

  /** Counts the lines that have ended; returns how many, and how many are open. */
  async #collect(batch: OpenBatch, until: number): Promise<{ open: number; collected: number }> {
    const { store, steadyClock } = this.#parts;
    const { number, appNumber, ended } = batch;
    const query = { number, appNumber, now: until, limit: LOOKED_AT };
    const { open, over } = await store.batchLines.openCount(query);
    if (over === 0) return { open, collected: 0 };
    const rate = rateAfter(batch.rate, over, batch.uploadedAt ?? batch.createdAt, steadyClock.now());
    const collected = await store.batchLines.collect({ ...query, ended, rate });
    return { open: open - collected, collected };
  }

  /** Takes the next lines; returns how many. */
  async #feed(batch: OpenBatch, fed: number, limit: number): Promise<number> {
    const feeding = this.#feeding(batch);
    if (!feeding) return 0;
    const next = await this.#lines.next(batch, fed, limit);
    if (next.length === 0) return 0;
    const lines = await fedLines(
      next.map((bytes, i) => ({ line: fed + i, bytes })),
      feeding,
    );
    const { number } = batch;
    const doneBefore = fed + lines.length;
    const isFed = await this.#parts.store.batchLines.feed({ number, fed, lines, doneBefore });
    return isFed ? lines.length : 0;
  }

  /** Takes delayed lines whose time has come, all of them if the batch is being cancelled; returns how many. */
  async #feedDelayed(batch: OpenBatch, delayed: number, limit: number): Promise<number> {
    const { store } = this.#parts;
    const feeding = this.#feeding(batch);
    if (!feeding) return 0;
    const { number, state } = batch;
    const until = state === "cancelling" ? ALL_TIMES : feeding.now + LINE_AHEAD_MS;
    const next = await store.delayedLines.due({ number, until, limit });
    if (next.length === 0) return 0;
    const due: { line: number; bytes: Buffer }[] = [];
    for (const line of next)
      due.push({ line, bytes: (await this.#lines.next(batch, line, 1))[0] ?? NO_LINE });
    const lines = await fedLines(due, { ...feeding, isDue: true });
    return (await store.delayedLines.feed({ number, delayed, lines })) ? lines.length : 0;
  }

  /** Null if no line may begin now. */
  #feeding(batch: OpenBatch): Feeding | null {
    const { steadyClock, reserve, target, large } = this.#parts;
    const live = target(batch.appNumber);
    if (!live || (reserve.isLow && batch.state !== "cancelling")) return null;
    const now = steadyClock.now();
    return { batch, target: live, now, newId: () => this.#ids.next(now), large, isDue: false };
  }

  async #cancelOpen({ number, appNumber }: OpenBatch): Promise<void> {
    const { store, cancel, log } = this.#parts;
    for (let after = -1; ;) {
      const runs = await store.batchLines.openRuns({ number, after, limit: FEED_LINES });
      // One that has ended meanwhile is counted with the others.
      await forEachConcurrently(runs, CANCELS_AT_ONCE, async ({ runId }) => {
        await cancel({ appNumber, id: runId }).catch((error: unknown) => {
          if (!(error instanceof AppError)) log.debug({ err: error }, "could not cancel a line's run");
        });
      });
      if (runs.length < FEED_LINES || this.#isStopping) return;
      after = runs.at(-1)!.line;
    }
  }

  async #end(batch: OpenBatch, ended: number): Promise<void> {
    const { store, steadyClock, onDeliveries } = this.#parts;
    const { id, appNumber, number, projectId, name } = batch;
    const now = steadyClock.now();
    const last = await store.lineBatches.find({ appNumber, id });
    if (!last || last.ended < ended) return;
    const state = last.state === "cancelling" ? "cancelled" : "completed";
    const delivery = deliveryOf({ ...last, projectId, name, state }, now);
    if (!(await store.lineBatches.end({ number, now, delivery }))) return;
    if (delivery) onDeliveries();
    this.changes.notify();
  }

  async #drop(batch: OpenBatch): Promise<void> {
    const { store, steadyClock, onDeliveries } = this.#parts;
    const now = steadyClock.now();
    // An upload that is not complete was never accepted.
    const delivery = batch.uploadedAt === null ? null : deliveryOf({ ...batch, state: "cancelled" }, now);
    if (!(await store.lineBatches.drop({ number: batch.number, now, delivery }))) return;
    if (delivery) onDeliveries();
    this.changes.notify();
  }

  async #abandonOld({ number, fence, keyHash, updatedAt }: LineBatch): Promise<void> {
    const { store, steadyClock } = this.#parts;
    const now = steadyClock.now();
    if (now - updatedAt < (keyHash === null ? UPLOAD_MS : BATCH_KEY_MS)) return;
    await store.lineBatches.abandon({ number, fence, now, delivery: null });
  }
}

type EndedBatch = LineBatch & Pick<OpenBatch, "projectId" | "name">;

/** What the webhook of a batch gets that has ended; null if it has none. */
function deliveryOf({ projectId, name, ...batch }: EndedBatch, now: number): NewDelivery | null {
  const { id, appNumber, webhookEndpoint: url, sealedSecret, trace } = batch;
  if (url === null) return null;
  const record = batchRecord({ ...batch, completedAt: now }, { projectId, name }, NO_LINES, now);
  const body = Buffer.from(JSON.stringify(record));
  const answer = { contentType: "application/json", runStatus: 200, body };
  return { id, appNumber, url, sealedSecret, trace, nextAt: now, createdAt: now, ...answer };
}
