import { type Clock, pause, withTimeout } from "../../kit/clock.ts";
import { isRefusal } from "../../model/errors.ts";
import type { DeliveryState } from "../../model/delivery.ts";
import { Sender } from "./sender.ts";
import { type ClaimedDelivery, Courier, type DelivererOptions, POSTPONE_MS } from "./courier.ts";
import { Hosts, MAX_ATTEMPTS, MAX_BYTES, ProjectShares, type Ticket, Waiting } from "./queueing.ts";
import { HORIZON_MS } from "./schedule.ts";

/** Gets the delivery; null if it is no longer due. */
type Get = () => Promise<ClaimedDelivery | null>;

const STOP_MS = 2_000;
/** Per claim, each with its body. */
const BATCH = { limit: 64, maxBytes: 16 * 1024 * 1024 };
/** The minimum gap between claims, unless more is due than one claim takes. */
const MIN_REST_MS = 5;
/** A claim skips all held deliveries, about a millisecond for this many: with more of them, claims are rarer. */
const HELD_PER_REST_MS = 100;
/** The maximum gap: a dead service may have left something due, or a claim that was given up may have succeeded. */
const MAX_REST_MS = 60_000;
const RETRY_MS = 1_000;

/** Claims due deliveries and sends each when its host has a place, at least once: a crash before recording sends again. */
export class Deliverer {
  /** How many attempts were made, by the state they left the delivery in. */
  readonly attempts: Readonly<Record<DeliveryState, number>>;
  readonly #options: DelivererOptions;
  readonly #clock: Clock;
  readonly #sender: Sender;
  readonly #courier: Courier;
  readonly #hosts = new Hosts();
  /** Deliveries that wait for their host. */
  readonly #forHost: Waiting;
  readonly #shares = new ProjectShares();
  /** Deliveries that wait for an attempt of their project to end. */
  readonly #forProject = new Waiting();
  readonly #attempts = new Set<Promise<void>>();
  /** Claimed deliveries without a recorded result. */
  readonly #held = new Set<string>();
  /** When the claims in the store are next compared with `#held`: at once after a claim whose answer was lost. */
  #reviewAt = 0;
  readonly #abort = new AbortController();
  #bytes = 0;
  /** The earliest time that is impossibly far off, and therefore due; 0 for none. */
  #farOffAt = 0;
  /** The earliest attempt that was planned since the last query. */
  #plannedAt = Number.POSITIVE_INFINITY;
  /** The loop sleeps until an attempt has ended. */
  #isBlocked = false;
  #isStopping = false;
  /** Something may have become due since the last claim. */
  #hasNews = true;
  /** Ends the sleep of the loop; null while it is awake. */
  #endSleep: (() => void) | null = null;
  #sleepsUntil = 0;
  #running: Promise<void> = Promise.resolve();

  constructor(options: DelivererOptions) {
    this.#options = options;
    this.#clock = options.steadyClock;
    this.#forHost = options.waiting ?? new Waiting();
    this.#sender = new Sender(options);
    this.#courier = new Courier({
      ...options,
      sender: this.#sender,
      signal: this.#abort.signal,
      onPlanned: (at) => this.#plan(at),
    });
    this.attempts = this.#courier.attempts;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Says that something may be due; cheap enough for every commit. */
  wake(): void {
    this.#hasNews = true;
    this.#endSleep?.();
  }

  /** Claims nothing more; attempts in progress get a moment to end, then are aborted and stay pending. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.wake();
    await this.#running;
    const ends = Promise.all(this.#attempts);
    await withTimeout(this.#options.stopMs ?? STOP_MS, ends, this.#clock);
    this.#abort.abort();
    await ends;
    this.#sender.close();
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      for (const origin of this.#forHost.keys()) this.#startForHost(origin);
      this.#startForProjects();
      const hasMore = await this.#claim();
      await pause(this.#clock, (this.#forHost.count + this.#forProject.count) / HELD_PER_REST_MS);
      if (!hasMore) await this.#rest();
    }
  }

  /** Whether more may be due than one claim gives. */
  async #claim(): Promise<boolean> {
    if (this.#isFull()) return false;
    const { store, log, owner } = this.#options;
    this.#hasNews = false;
    const now = Math.max(this.#clock.now(), this.#farOffAt);
    this.#farOffAt = 0;
    try {
      if (this.#clock.now() >= this.#reviewAt) await this.#putBackUnheard(now);
      const claimed = await store.deliveries.claimDue({ ...BATCH, owner, now });
      for (const delivery of claimed) {
        this.#held.add(delivery.id);
        this.#admit(ticketOf(delivery), () => Promise.resolve(delivery));
      }
      return claimed.length > 0;
    } catch (error) {
      if (!isRefusal(error)) this.#reviewAt = 0;
      log.error({ err: error }, "could not read due webhooks; retrying");
      if (!this.#isStopping) await this.#sleepUntil(this.#clock.now() + RETRY_MS);
      return true;
    }
  }

  /** Makes deliveries due again whose claim succeeded though its answer was lost. */
  async #putBackUnheard(now: number): Promise<void> {
    const { store, owner } = this.#options;
    for (const id of await store.deliveries.held({ owner }))
      if (!this.#held.has(id)) await store.deliveries.postpone({ id, owner, nextAt: now });
    this.#reviewAt = this.#clock.now() + MAX_REST_MS;
  }

  /** Begins an attempt, or lets it wait for its project or its host; without room to wait, it is postponed. */
  #admit(ticket: Ticket, get: Get): void {
    const { projectId, origin, bodyBytes } = ticket;
    if (!this.#shares.hasRoom(projectId, bodyBytes)) return this.#keep(this.#forProject, projectId, ticket);
    // Earlier deliveries go first.
    const isFree =
      this.#forHost.first(origin) === null && this.#hosts.take(origin, bodyBytes, this.#clock.now());
    return isFree ? this.#begin(ticket, get) : this.#keep(this.#forHost, origin, ticket);
  }

  #keep(waiting: Waiting, key: string, ticket: Ticket): void {
    if (waiting.add(key, ticket)) return;
    const { id, origin } = ticket;
    const nextAt = Math.max(this.#hosts.restsUntil(origin), this.#clock.now() + POSTPONE_MS);
    this.#track(this.#courier.postpone(id, nextAt).finally(() => this.#held.delete(id)));
  }

  /** Starts as many deliveries that wait for a host as it has places. */
  #startForHost(origin: string): void {
    for (let ticket = this.#forHost.first(origin); ticket; ticket = this.#forHost.first(origin)) {
      const { projectId, bodyBytes } = ticket;
      if (this.#isStopping || this.#isFull()) return;
      if (!this.#shares.hasRoom(projectId, bodyBytes)) {
        // Other projects' deliveries to the same host do not wait for this project's turn.
        this.#forHost.removeFirst(origin);
        this.#keep(this.#forProject, projectId, ticket);
        continue;
      }
      if (!this.#hosts.take(origin, bodyBytes, this.#clock.now())) return;
      this.#forHost.removeFirst(origin);
      this.#begin(ticket, () => this.#find(ticket));
    }
  }

  /** Starts as many deliveries that wait for their projects as these have places. */
  #startForProjects(): void {
    for (const projectId of this.#forProject.keys()) {
      for (;;) {
        const ticket = this.#forProject.first(projectId);
        if (this.#isStopping || this.#isFull()) return;
        if (!ticket || !this.#shares.hasRoom(projectId, ticket.bodyBytes)) break;
        this.#forProject.removeFirst(projectId);
        this.#admit(ticket, () => this.#find(ticket));
      }
    }
  }

  async #find({ id, projectId }: Ticket): Promise<ClaimedDelivery | null> {
    const ask = () => this.#options.store.deliveries.find({ projectId, id });
    const found = await this.#courier.persist("could not read a webhook", ask);
    return found?.state === "pending" ? { ...found, projectId } : null;
  }

  /** Its host has given it a place. */
  #begin({ id, projectId, origin, bodyBytes }: Ticket, get: Get): void {
    this.#bytes += bodyBytes;
    this.#shares.add(projectId, bodyBytes, 1);
    let isHolding = true;
    const leave = (hasAnswered: boolean | null): void => {
      if (!isHolding) return;
      isHolding = false;
      this.#hosts.release(origin, bodyBytes, hasAnswered, this.#clock.now());
      this.#shares.add(projectId, bodyBytes, -1);
      this.#startForHost(origin);
      this.#startForProjects();
      // It may have begun to rest just now: deliveries that wait for it are tried again after that.
      if (this.#forHost.first(origin)) this.#plan(this.#hosts.restsUntil(origin));
    };
    const attempt = async (): Promise<void> => {
      try {
        const delivery = await get();
        if (delivery) await this.#courier.deliver(delivery, leave);
      } finally {
        this.#held.delete(id);
        this.#bytes -= bodyBytes;
        leave(null);
      }
    };
    this.#track(attempt());
  }

  #track(work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) => {
        if (!this.#abort.signal.aborted)
          this.#options.log.error({ err: error }, "a webhook attempt failed with an internal error");
      })
      .finally(() => {
        this.#attempts.delete(tracked);
        if (this.#isBlocked && !this.#isFull()) this.#endSleep?.();
      });
    this.#attempts.add(tracked);
  }

  #isFull(): boolean {
    return this.#attempts.size >= MAX_ATTEMPTS || this.#bytes >= MAX_BYTES;
  }

  /** Until something is due, or `wake` is called. */
  async #rest(): Promise<void> {
    await pause(this.#clock, MIN_REST_MS);
    this.#isBlocked = this.#isFull();
    if (this.#isBlocked && !this.#isStopping) return await this.#sleepUntil(Number.POSITIVE_INFINITY);
    if (this.#hasNews || this.#isStopping) return;
    const until = await this.#nextAt();
    if (this.#hasNews || this.#isStopping) return;
    await this.#sleepUntil(Math.min(until, this.#plannedAt));
  }

  /** When something is next due, without a `wake`. */
  async #nextAt(): Promise<number> {
    const now = this.#clock.now();
    this.#plannedAt = Number.POSITIVE_INFINITY;
    const rests = this.#forHost.keys().map((origin) => this.#hosts.restsUntil(origin));
    const ends = rests.filter((at) => at > 0);
    try {
      const dueAt = await this.#options.store.deliveries.nextDueAt();
      // No wait is so long: a clock that was wrong wrote this.
      if (dueAt !== null && dueAt > now + HORIZON_MS) this.#farOffAt = dueAt;
      if (dueAt !== null) ends.push(this.#farOffAt === 0 ? dueAt : now);
    } catch (error) {
      this.#options.log.error({ err: error }, "could not read due webhooks; retrying");
      ends.push(now + RETRY_MS);
    }
    return Math.min(...ends);
  }

  #plan(at: number): void {
    if (at === 0) return;
    this.#plannedAt = Math.min(this.#plannedAt, at);
    if (at < this.#sleepsUntil) this.#endSleep?.();
  }

  /** Sleeps until that time or until `#endSleep`, but no longer than the maximum rest. */
  #sleepUntil(at: number): Promise<void> {
    const ms = Math.max(0, Math.min(at - this.#clock.now(), MAX_REST_MS));
    this.#sleepsUntil = at;
    return new Promise((resolve) => {
      const timer = this.#clock.after(ms, () => this.#endSleep?.());
      this.#endSleep = () => {
        timer.cancel();
        this.#endSleep = null;
        this.#sleepsUntil = 0;
        resolve();
      };
    });
  }
}

function ticketOf({ id, projectId, url, body, bodyBlob }: ClaimedDelivery): Ticket {
  const bodyBytes = bodyBlob?.bytes ?? body?.byteLength ?? 0;
  return { id, projectId, origin: URL.parse(url)?.origin ?? "", bodyBytes };
}
