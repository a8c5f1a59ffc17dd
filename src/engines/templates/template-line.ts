import { totalmem } from "node:os";
import type { Clock, Timer } from "../../kit/clock.ts";
import { type Exit, type ReplicaStart, type SeatOwner, type Started, STOPPED } from "../engine.ts";
import { limited } from "../local/limited.ts";
import { deferred, over, type StartedProcess } from "../local/spawn.ts";
import { Template } from "./template.ts";

/** The share of the machine's memory that idle templates may hold. */
const SHARE = 1 / 4;

type Idle = { readonly bytes: number; readonly retire: () => void };

/** The templates of all apps that have no replica. If they exceed their share of memory, the oldest are ended. */
export class IdleTemplates {
  /** By owner, oldest first. */
  readonly #idle = new Map<object, Idle>();
  readonly #maxBytes: number;

  constructor(maxBytes: number = totalmem() * SHARE) {
    this.#maxBytes = maxBytes;
  }

  /** The owner's template is idle and holds so much memory; `retire` ends it. */
  add(owner: object, bytes: number, retire: () => void): void {
    this.#idle.set(owner, { bytes, retire });
    let total = 0;
    for (const idle of this.#idle.values()) total += idle.bytes;
    for (const [oldest, idle] of this.#idle) {
      if (total <= this.#maxBytes) return;
      total -= idle.bytes;
      this.#idle.delete(oldest);
      idle.retire();
    }
  }

  remove(owner: object): void {
    this.#idle.delete(owner);
  }
}

/** A replica whose process does not exist yet: the template is not ready, or has not forked. */
type Waiting = {
  readonly replica: ReplicaStart;
  /** Called again if the first start failed. */
  readonly begin: (started: Started) => void;
  readonly isKilled: () => boolean;
};

/** `onReady` is called when the app was imported, or could not be. */
type LineEvents = Omit<SeatOwner, "onLog" | "onEnded"> & { onReady(): void };

/**
 * A template, the replicas that wait for it and those that it forked.
 *
 * importing → forking → over (kept too long, died, or was found dead when asked to fork); importing → over, when the
 * template may not fork or no replica waits for it any more.
 */
export class TemplateLine {
  readonly template: Template;
  readonly #process: StartedProcess;
  readonly #clock: Clock;
  readonly #idle: IdleTemplates;
  readonly #events: LineEvents;
  #keepMs: number;
  #phase: "importing" | "forking" | "over" = "importing";
  /** It ends with its last replica. */
  #isDetached = false;
  #waiting: Waiting[] = [];
  /** Replicas that the template was asked to fork, while their processes live. */
  readonly #forked = new Map<string, Waiting>();
  #retireTimer: Timer | null = null;

  /** `process` imports the app. It is kept for `keepMs` without a replica, if there is memory for it. */
  constructor(
    process: StartedProcess,
    clock: Clock,
    idle: IdleTemplates,
    keepMs: number,
    events: LineEvents,
  ) {
    this.#process = process;
    this.#clock = clock;
    this.#idle = idle;
    this.#keepMs = keepMs;
    this.#events = events;
    // Its pod or machine is about to end.
    void process.leaving?.finally(() => {
      events.onOver();
      this.detach();
    });
    this.template = new Template(process, clock, {
      ...events,
      onReady: (forks) => {
        process.noteImported?.();
        events.onReady();
        if (forks) this.#startForking();
        else this.#startOrdinary();
      },
      onIdle: () => this.#keep(),
      onDead: (why, unborn) => this.#leaveBehind(why, unborn),
      onLost: () => this.#finish(),
      onGone: (exit) => {
        events.onReady();
        this.#finish();
        for (const { begin } of this.#take()) begin(over(exit));
      },
    });
  }

  start(replica: ReplicaStart): Started {
    this.#retireTimer?.cancel();
    this.#idle.remove(this);
    const { started, waiting } = this.#prepare(replica);
    if (this.#phase === "forking") this.#fork(waiting);
    else this.#waiting.push(waiting);
    return started;
  }

  keepFor(keepMs: number): void {
    this.#keepMs = keepMs;
    if (this.#phase === "forking" && !this.template.hasChildren) this.#keep();
  }

  detach(): void {
    this.#isDetached = true;
    if (this.#phase === "forking") this.#retire();
  }

  stop(): void {
    this.#retireTimer?.cancel();
  }

  #prepare(replica: ReplicaStart): { started: Started; waiting: Waiting } {
    let begun: Started | null = null;
    let isKilled = false;
    const { promise: exited, resolve } = Promise.withResolvers<Exit>();
    const waiting: Waiting = {
      replica,
      begin: (started) => {
        begun = started;
        // If the start was repeated, only the last process counts.
        void started.exited.then((exit) => begun === started && resolve(exit));
      },
      isKilled: () => isKilled,
    };
    const giveUp = (): void => {
      if (!this.#waiting.includes(waiting)) return;
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      resolve(STOPPED);
      // No replica waits for the import any more.
      if (this.#waiting.length === 0) this.#end();
    };
    const kill = (): void => {
      isKilled = true;
      if (begun) begun.kill();
      else giveUp();
    };
    const obstacle = () => (begun ?? this.#process).obstacle?.() ?? null;
    const { leaving } = this.#process;
    const started = deferred(() => begun, { exited, kill, ...(leaving && { leaving }) });
    return { started: { ...started, obstacle }, waiting };
  }

  #startForking(): void {
    // One that is being ended may still say that it is ready.
    if (this.#phase === "importing") this.#phase = "forking";
    for (const waiting of this.#take()) this.#fork(waiting);
  }

  #fork(waiting: Waiting): void {
    const { replica, begin } = waiting;
    this.#forked.set(replica.id, waiting);
    const held = this.#process.holdFork?.(replica.ticket) ?? null;
    const child = this.template.fork(replica);
    const exited = child.exited.then(async (exit) => (await this.#process.explain?.(exit)) ?? exit);
    const forked = held ? limited({ ...child, exited }, held) : { ...child, exited };
    void forked.exited.then(() => this.#forked.delete(replica.id));
    begin(forked);
  }

  /** The template is dead: replicas it has not forked start in another seat, the others continue. */
  #leaveBehind(why: string, unborn: readonly string[]): void {
    this.#events.onSilence(why);
    this.#finish();
    for (const { replica, begin, isKilled } of unborn.flatMap((id) => this.#forked.get(id) ?? []))
      if (!isKilled()) begin(this.#events.elsewhere(replica));
  }

  /** The template's process becomes the first replica; the others start in seats of their own. */
  #startOrdinary(): void {
    this.#events.onSingle();
    this.#finish();
    const [first, ...others] = this.#take();
    first?.begin(this.#process);
    for (const { replica, begin } of others) begin(this.#events.elsewhere(replica));
  }

  #keep(): void {
    this.#retireTimer?.cancel();
    if (this.#isDetached) this.#retire();
    else {
      this.#retireTimer = this.#clock.after(this.#keepMs, () => this.#retire());
      void this.#measure();
    }
  }

  async #measure(): Promise<void> {
    const bytes = await this.#process.residentBytes();
    if (this.#phase === "forking" && !this.template.hasChildren)
      this.#idle.add(this, bytes, () => this.#retire());
  }

  #retire(): void {
    if (!this.template.hasChildren) this.#end();
  }

  #end(): void {
    if (this.#phase === "over") return;
    this.#finish();
    void this.template.close();
  }

  #finish(): void {
    this.#phase = "over";
    this.#idle.remove(this);
    this.#retireTimer?.cancel();
    this.#events.onOver();
  }

  #take(): Waiting[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }
}
