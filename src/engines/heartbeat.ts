import { ALL_THREADS, type Vitals } from "./engine.ts";
import type { Clock, Timer } from "../kit/clock.ts";

type HeartbeatEvents = {
  /** Sends a ping, unless one is unanswered. */
  ping(): void;
  look(): Vitals | null;
  onSilence(isSilent: boolean): void;
  /** Called once, as the last event. */
  onDead(why: string): void;
};

/** How often a heartbeat is checked. */
export const HEARTBEAT_MS = 1_000;
/** Silent checks after the ping. */
export const DEAD_BEATS = 5;
const SECONDS = (DEAD_BEATS * HEARTBEAT_MS) / 1000;
/** Why a process is given up that was stopped, by SIGSTOP or a debugger. */
export const STOPPED_TOO_LONG = `it was stopped and did not answer for ${SECONDS} s`;
/** A thread that used less during those checks did nothing. Waiting for the interpreter lock takes 14 ms of 5 s (measured). */
const WORK_MS = 50;
/** Two readings that are closer together say nothing. */
const LEAST_SPAN_MS = 1_000;

/**
 * Finds out whether a replica is alive. Any message proves it; a replica that sends nothing is pinged.
 *
 * heard → pinged → silent → heard; silent → dead when it is stopped, or does nothing, for five seconds. Code that
 * computes without releasing the interpreter is silent and alive. Checks are counted, not time: a service that slept
 * or was busy has not checked meanwhile.
 */
export class Heartbeat {
  /** It was pinged at least one check ago, and has sent nothing since. */
  isSilent = false;
  readonly #events: HeartbeatEvents;
  #isHeard = true;
  #isAsked = false;
  #isDead = false;
  #silentChecks = 0;
  /** The reading that later ones are compared with. */
  #before: Vitals | null = null;
  #stillChecks = 0;
  /** Threads that waited for a processor at each reading since. */
  #starved: readonly number[] = [];

  constructor(events: HeartbeatEvents) {
    this.#events = events;
  }

  hear(): void {
    this.#isHeard = true;
    if (this.isSilent) this.#setSilent(false);
  }

  /** Pings a replica that sent nothing since the last check, and judges one that has not answered. */
  check(): void {
    if (this.#isDead) return;
    if (this.#isHeard) {
      this.#isHeard = false;
      this.#isAsked = false;
      return;
    }
    if (!this.#isAsked) {
      this.#isAsked = true;
      this.#silentChecks = 0;
      this.#before = null;
      this.#events.ping();
      return;
    }
    this.#silentChecks += 1;
    if (!this.isSilent) this.#setSilent(true);
    this.#judge(this.#events.look());
  }

  #setSilent(isSilent: boolean): void {
    this.isSilent = isSilent;
    this.#events.onSilence(isSilent);
  }

  #judge(now: Vitals | null): void {
    if (now?.isStopped) {
      if (this.#silentChecks >= DEAD_BEATS) this.#end(STOPPED_TOO_LONG);
      return;
    }
    if (!now || !this.#before || hasWorked(this.#before, now)) {
      this.#restart(now);
      return;
    }
    this.#stillChecks += 1;
    this.#starved = this.#starved.filter((id) => now.threads.get(id)?.isRunnable);
    if (this.#stillChecks < DEAD_BEATS || now.atMs - this.#before.atMs < LEAST_SPAN_MS) return;
    // On an overloaded machine a thread may get no processor for seconds.
    if (this.#starved.length > 0) this.#restart(now);
    else this.#end(`it hung: it did not answer and did nothing for ${SECONDS} s`);
  }

  #restart(now: Vitals | null): void {
    this.#before = now;
    this.#stillChecks = 0;
    this.#starved = [...(now?.threads ?? [])].flatMap(([id, { isRunnable }]) => (isRunnable ? id : []));
  }

  #end(why: string): void {
    this.#isDead = true;
    this.#events.onDead(why);
  }
}

function hasWorked(before: Vitals, now: Vitals): boolean {
  for (const [id, { usedMs }] of now.threads) {
    const newMs = usedMs - (before.threads.get(id)?.usedMs ?? 0);
    // For all threads together it is unknown which ones want a processor, so any time counts as work.
    if (newMs >= WORK_MS || (id === ALL_THREADS && newMs > 0)) return true;
  }
  return false;
}

/** Checks heartbeats once a second, but not before the event loop has read the answers that came while it was busy. */
export class HeartbeatTimer {
  readonly #clock: Clock;
  readonly #visit: () => void;
  #timer: Timer | null = null;
  #hasListened = true;

  constructor(clock: Clock, visit: () => void) {
    this.#clock = clock;
    this.#visit = visit;
  }

  start(): void {
    this.#timer ??= this.#clock.every(HEARTBEAT_MS, () => this.#go());
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #go(): void {
    if (!this.#hasListened) return;
    this.#hasListened = false;
    // After the event loop has read all connections.
    setImmediate(() => (this.#hasListened = true));
    this.#visit();
  }
}
