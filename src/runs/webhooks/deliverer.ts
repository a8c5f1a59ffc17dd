import type { AddressRanges } from "../../kit/ip-addresses.ts";
import { type Clock, pause, steady, withTimeout } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Seal } from "../../kit/seal.ts";
import { isRefusal } from "../../model/errors.ts";
import type { DeliveryState } from "../../model/delivery.ts";
import type { Store } from "../../store/store.ts";
import type { LargePayloads } from "../large-payloads.ts";
import { type Resolve, Sender } from "./sender.ts";
import { type ClaimedDelivery, Courier } from "./courier.ts";
import { HOST_LIMITS, type HostLimits, Hosts, ProjectShares, type Ticket, Waiting } from "./queueing.ts";
import { GAPS_MS, HORIZON_MS } from "./schedule.ts";
import type { SigningSecrets } from "./signing-secrets.ts";

export type DelivererOptions = {
  readonly store: Store;
  readonly seal: Seal;
  readonly secrets: SigningSecrets;
  /** For what people and receivers read. */
  readonly clock: Clock;
  /** For what is due when: the clock that deliveries are written with. Made from the other unless given. */
  readonly steadyClock?: Clock;
  readonly log: Log;
  /** Null where every body lies in the database. */
  readonly large?: LargePayloads | null;
  /** Private ranges that webhooks may reach all the same. */
  readonly allow: AddressRanges;
  /** Who claims: the same name as for runs, so that one heartbeat keeps both. */
  readonly owner: string;
  /** The wait before each attempt. */
  readonly gapsMs?: readonly number[];
  /** Of one attempt. */
  readonly deadlineMs?: number;
  readonly hostLimits?: HostLimits;
  /** Where deliveries wait for their hosts. */
  readonly waiting?: Waiting;
  readonly resolve?: Resolve;
  /** How long a stop waits for attempts under way. */
  readonly stopMs?: number;
};

/** Gets what is to be sent; null where that is no longer due. */
type Get = () => Promise<ClaimedDelivery | null>;

const STOP_MS = 2_000;
/** Per claim, each with its body. */
const BATCH = { max: 64, bytes: 16 * 1024 * 1024 };
/** How long a delivery that has no place to wait for its host is put off. */
const POSTPONE_MS = 10_000;
const MAX_ATTEMPTS = 256;
const MAX_BYTES = 256 * 1024 * 1024;
/** Claims are at least this far apart, unless there is more than one of them holds. */
const MIN_REST_MS = 5;
/** A claim looks past all that are held already, about a millisecond for so many: then there are fewer claims. */
const HELD_PER_REST_MS = 100;
/** And at most this: another service may have died and left something due, or a claim that was given up be done. */
const MAX_REST_MS = 60_000;
const RETRY_MS = 1_000;

/**
 * Sends what is due: claims deliveries from the store, gives each a place at its host or lets it wait for
 * one, and has a courier make the attempt. At least once: a death between sending and recording sends again.
 */
export class Deliverer {
  readonly #store: Store;
  readonly #log: Log;
  readonly #steady: Clock;
  readonly #owner: string;
  readonly #stopMs: number;
  readonly #sender: Sender;
  readonly #courier: Courier;
  readonly #hosts: Hosts;
  readonly #waiting: Waiting;
  readonly #shares = new ProjectShares(MAX_ATTEMPTS, MAX_BYTES);
  /** Those that wait for an attempt of their project to end. */
  readonly #crowded = new Waiting();
  readonly #attempts = new Set<Promise<void>>();
  /** Those that are claimed and on no record yet. */
  readonly #held = new Set<string>();
  /** When what is ours is next compared with what we know of: at once when the answer to a claim was lost. */
  #reviewAt = 0;
  readonly #abort = new AbortController();
  #bytes = 0;
  /** The earliest time of a delivery that is impossibly far off, and therefore due. */
  #strayAt = 0;
  /** The earliest of the next attempts that were planned since the store was asked. */
  #plannedAt = Number.POSITIVE_INFINITY;
  /** The loop sleeps until an attempt has ended. */
  #isBlocked = false;
  #isStopping = false;
  /** Something may have become due since the last claim. */
  #hasNews = true;
  /** Ends the sleep of the loop. */
  #ring: (() => void) | null = null;
  #sleepsUntil = 0;
  #running: Promise<void> = Promise.resolve();

  constructor(options: DelivererOptions) {
    const { store, log, owner, stopMs = STOP_MS } = options;
    this.#store = store;
    this.#log = log;
    this.#steady = options.steadyClock ?? steady(options.clock);
    this.#owner = owner;
    this.#stopMs = stopMs;
    this.#hosts = new Hosts(options.hostLimits ?? HOST_LIMITS);
    this.#waiting = options.waiting ?? new Waiting();
    this.#sender = new Sender(options);
    this.#courier = new Courier({
      ...options,
      sender: this.#sender,
      steadyClock: this.#steady,
      gapsMs: options.gapsMs ?? GAPS_MS,
      onPlanned: (at) => this.#plan(at),
    });
  }

  /** How many attempts were made, by what they left the delivery as. */
  get attempts(): Readonly<Record<DeliveryState, number>> {
    return this.#courier.attempts;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Says that something may be due; cheap enough for every commit. */
  wake(): void {
    this.#hasNews = true;
    this.#ring?.();
  }

  /** Takes nothing more, gives attempts under way a moment, then breaks them off: those stay pending. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.wake();
    await this.#running;
    const ends = Promise.all(this.#attempts);
    await withTimeout(this.#stopMs, ends, this.#steady);
    this.#abort.abort();
    await ends;
    this.#sender.close();
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      for (const origin of this.#waiting.keys()) this.#startWaiting(origin);
      this.#startCrowded();
      const hasMore = await this.#claim();
      await pause(this.#steady, (this.#waiting.count + this.#crowded.count) / HELD_PER_REST_MS);
      if (!hasMore) await this.#rest();
    }
  }

  /** Whether more may be due than one claim gives. */
  async #claim(): Promise<boolean> {
    if (this.#isFull()) return false;
    this.#hasNews = false;
    const now = Math.max(this.#steady.now(), this.#strayAt);
    this.#strayAt = 0;
    try {
      if (this.#steady.now() >= this.#reviewAt) await this.#putBackUnheard(now);
      const query = { owner: this.#owner, now, limit: BATCH.max, maxBytes: BATCH.bytes };
      const claimed = await this.#store.deliveries.claimDue(query);
      for (const delivery of claimed) {
        this.#held.add(delivery.id);
        this.#admit(ticketOf(delivery), () => Promise.resolve(delivery));
      }
      return claimed.length > 0;
    } catch (error) {
      if (!isRefusal(error)) this.#reviewAt = 0;
      this.#log.error({ err: error }, "could not read due webhooks; retrying");
      if (!this.#isStopping) await this.#sleepUntil(this.#steady.now() + RETRY_MS);
      return true;
    }
  }

  /** What a claim got whose answer nobody heard is due again. */
  async #putBackUnheard(now: number): Promise<void> {
    const held = await this.#store.deliveries.held({ owner: this.#owner });
    for (const id of held.filter((each) => !this.#held.has(each))) {
      await this.#store.deliveries.postpone({ id, owner: this.#owner, nextAt: now });
    }
    this.#reviewAt = this.#steady.now() + MAX_REST_MS;
  }

  /** Begins an attempt, or has it wait for its project or its host; where there is no room to wait, it is put off. */
  #admit(ticket: Ticket, get: Get): void {
    const { projectId, origin, bodyBytes } = ticket;
    if (!this.#shares.hasRoom(projectId, bodyBytes)) return this.#keep(this.#crowded, projectId, ticket);
    // Whoever came before goes first.
    const isFree =
      this.#waiting.first(origin) === null && this.#hosts.take(origin, bodyBytes, this.#steady.now());
    return isFree ? this.#begin(ticket, get) : this.#keep(this.#waiting, origin, ticket);
  }

  #keep(waiting: Waiting, key: string, ticket: Ticket): void {
    if (waiting.add(key, ticket)) return;
    const { id, origin } = ticket;
    const nextAt = Math.max(this.#hosts.restsUntil(origin), this.#steady.now() + POSTPONE_MS);
    const ask = () => this.#store.deliveries.postpone({ id, owner: this.#owner, nextAt });
    const putOff = this.#courier.persist("could not postpone a webhook", ask, this.#abort.signal);
    this.#track(putOff.finally(() => this.#held.delete(id)));
  }

  /** Starts as many of those that wait for a host as it has places. */
  #startWaiting(origin: string): void {
    for (let ticket = this.#waiting.first(origin); ticket; ticket = this.#waiting.first(origin)) {
      const { projectId, bodyBytes } = ticket;
      if (this.#isStopping || this.#isFull()) return;
      if (!this.#shares.hasRoom(projectId, bodyBytes)) {
        // Others' deliveries to the same host do not wait for its project's turn.
        this.#waiting.removeFirst(origin);
        this.#keep(this.#crowded, projectId, ticket);
        continue;
      }
      if (!this.#hosts.take(origin, bodyBytes, this.#steady.now())) return;
      this.#waiting.removeFirst(origin);
      this.#begin(ticket, () => this.#find(ticket));
    }
  }

  /** Starts as many of those that wait for their projects' turns as these have places. */
  #startCrowded(): void {
    for (const projectId of this.#crowded.keys()) {
      for (let ticket = this.#crowded.first(projectId); ticket; ticket = this.#crowded.first(projectId)) {
        if (this.#isStopping || this.#isFull()) return;
        if (!this.#shares.hasRoom(projectId, ticket.bodyBytes)) break;
        this.#crowded.removeFirst(projectId);
        const found = ticket;
        this.#admit(found, () => this.#find(found));
      }
    }
  }

  async #find({ id, projectId }: Ticket): Promise<ClaimedDelivery | null> {
    const ask = () => this.#store.deliveries.find({ projectId, id });
    const found = await this.#courier.persist("could not read a webhook", ask, this.#abort.signal);
    return found?.state === "pending" ? { ...found, projectId } : null;
  }

  /** Its host has given it a place. */
  #begin({ id, projectId, origin, bodyBytes }: Ticket, get: Get): void {
    this.#bytes += bodyBytes;
    this.#shares.take(projectId, bodyBytes);
    let isHolding = true;
    const leave = (hasAnswered: boolean | null): void => {
      if (!isHolding) return;
      isHolding = false;
      this.#hosts.release(origin, bodyBytes, hasAnswered, this.#steady.now());
      this.#shares.release(projectId, bodyBytes);
      this.#startWaiting(origin);
      this.#startCrowded();
      // It may have gone to rest just now: whoever waits for it is to be looked at again after that.
      if (this.#waiting.first(origin)) this.#plan(this.#hosts.restsUntil(origin));
    };
    const attempt = async (): Promise<void> => {
      try {
        const delivery = await get();
        if (delivery) await this.#courier.deliver(delivery, leave, this.#abort.signal);
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
          this.#log.error({ err: error }, "a webhook attempt failed with an internal error");
      })
      .finally(() => {
        this.#attempts.delete(tracked);
        if (this.#isBlocked && !this.#isFull()) this.#ring?.();
      });
    this.#attempts.add(tracked);
  }

  #isFull(): boolean {
    return this.#attempts.size >= MAX_ATTEMPTS || this.#bytes >= MAX_BYTES;
  }

  /** Until something is due, or somebody says so. */
  async #rest(): Promise<void> {
    await pause(this.#steady, MIN_REST_MS);
    this.#isBlocked = this.#isFull();
    if (this.#isBlocked && !this.#isStopping) return await this.#sleepUntil(Number.POSITIVE_INFINITY);
    if (this.#hasNews || this.#isStopping) return;
    const until = await this.#nextAt();
    if (this.#hasNews || this.#isStopping) return;
    await this.#sleepUntil(Math.min(until, this.#plannedAt));
  }

  /** When there is next something to do without being told. */
  async #nextAt(): Promise<number> {
    const now = this.#steady.now();
    this.#plannedAt = Number.POSITIVE_INFINITY;
    const rests = this.#waiting.keys().map((origin) => this.#hosts.restsUntil(origin));
    const ends = rests.filter((at) => at > 0);
    try {
      const dueAt = await this.#store.deliveries.nextDueAt();
      // No wait is so long: a clock that was wrong wrote this.
      if (dueAt !== null && dueAt > now + HORIZON_MS) this.#strayAt = dueAt;
      if (dueAt !== null) ends.push(this.#strayAt === 0 ? dueAt : now);
    } catch (error) {
      this.#log.error({ err: error }, "could not read due webhooks; retrying");
      ends.push(now + RETRY_MS);
    }
    return Math.min(...ends);
  }

  #plan(at: number): void {
    if (at === 0) return;
    this.#plannedAt = Math.min(this.#plannedAt, at);
    if (at < this.#sleepsUntil) this.#ring?.();
  }

  /** Sleeps until that time, or until it is rung out of it; no more than the longest rest. */
  #sleepUntil(at: number): Promise<void> {
    const ms = Math.max(0, Math.min(at - this.#steady.now(), MAX_REST_MS));
    this.#sleepsUntil = at;
    return new Promise((resolve) => {
      const timer = this.#steady.after(ms, () => this.#ring?.());
      this.#ring = () => {
        timer.cancel();
        this.#ring = null;
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
