import { type Exit, type InitFailure, noStartTimes } from "../engines/engine.ts";
import type { Started, StartedServer, StartTimes } from "../engines/engine.ts";
import type { Moves } from "../engines/protocol.ts";
import type { Clock, Timer } from "../kit/clock.ts";
import { type Call, CallTable } from "./call.ts";

type ReplicaState = "starting" | "ready" | "draining" | "gone";

/** What may happen to a replica in each state; anything else is ignored. Only a ready replica is given calls. */
const REPLICA_MOVES: Moves<ReplicaState, "ready" | "drain" | "leave"> = {
  starting: { ready: "ready", leave: "gone" },
  ready: { drain: "draining", leave: "gone" },
  draining: { leave: "gone" },
  gone: {},
};

/** How long the news of a process's end may come after the end of its connections, or before it. */
export const LAST_WORDS_MS = 500;

type LifeEvents = { onEnding(): void; onGranted(): void; onError(error: unknown): void };

/** A replica's life from start to end, whichever way calls reach it. */
export abstract class ReplicaLife<Process extends Started | StartedServer> {
  readonly id: string;
  readonly startedAt: number;
  /** The same by the monotonic clock. */
  readonly #begunAt: number;
  /** The calls it holds by wire id, oldest first. */
  readonly calls = new CallTable();
  readyAt = 0;
  isCondemned = false;
  /** It cannot start before it is granted its GPUs. */
  waitsForGpu = false;
  idleSince = 0;
  /** How many slots its calls use: those of a batch use one. */
  busy = 0;
  headSince = 0;
  protected readonly clock: Clock;
  protected process: Process | null = null;
  protected initFailure: InitFailure | null = null;
  /** Why it was found dead. */
  protected silence: string | null = null;
  /** How many calls each of its steppers has, by function. */
  readonly #stepped = new Map<string, number>();
  #state: ReplicaState = "starting";
  #deadline: Timer | null = null;
  readonly #events: LifeEvents;

  protected constructor(id: string, clock: Clock, events: LifeEvents) {
    this.id = id;
    this.startedAt = clock.now();
    this.#begunAt = clock.monotonic();
    this.clock = clock;
    this.#events = events;
  }

  get state(): ReplicaState {
    return this.#state;
  }

  startTimes(): StartTimes & { readonly begunAt: number } {
    return { ...(this.process?.times?.() ?? noStartTimes()), begunAt: this.#begunAt };
  }

  obstacle(): string | null {
    return this.#state === "starting" ? (this.process?.obstacle?.() ?? null) : null;
  }

  /** Ties it to its process, and ends with the process. It fails if it is not ready `initSeconds` after it has its GPUs. */
  bindTo(process: Process, initSeconds: number): void {
    this.process = process;
    this.waitsForGpu = process.granted !== undefined;
    if (!process.granted) this.#limitStart(initSeconds);
    else void process.granted.then(() => this.#noteGranted(initSeconds));
    this.#outlive(process).catch((error: unknown) => this.#events.onError(error));
  }

  #noteGranted(initSeconds: number): void {
    this.waitsForGpu = false;
    if (this.#state === "starting") this.#limitStart(initSeconds);
    this.#events.onGranted();
  }

  #limitStart(initSeconds: number): void {
    this.setDeadline(initSeconds, () => {
      this.initFailure = { ...this.describeTimeout(initSeconds), isTimeout: true };
      this.kill();
    });
  }

  stop(withinSeconds: number): void {
    if (this.#state === "starting") this.kill();
    else if (this.move("drain")) {
      this.setDeadline(withinSeconds, () => this.kill());
      this.drain(withinSeconds);
    }
  }

  kill(): void {
    if (this.#state !== "gone") this.process?.kill();
  }

  protected abstract describeTimeout(initSeconds: number): Pick<InitFailure, "message" | "traceback">;
  /** Lets the calls it holds run to their end. */
  protected abstract drain(withinSeconds: number): void;
  /** Resolves when everything that the process sent before its end has been read. */
  protected abstract lastWords(): Promise<unknown>;
  protected abstract leave(exit: Exit): void;

  /** The one place where events are checked against the table. */
  protected move(event: "ready" | "drain" | "leave"): boolean {
    const next = REPLICA_MOVES[this.#state][event];
    if (next === undefined) return false;
    this.#state = next;
    if (event !== "drain") this.#deadline?.cancel();
    if (event === "ready") {
      this.readyAt = this.clock.now();
      this.idleSince = this.clock.monotonic();
    }
    return true;
  }

  protected setDeadline(seconds: number, act: () => void): void {
    this.#deadline?.cancel();
    this.#deadline = this.clock.after(seconds * 1000, act);
  }

  /** Takes a call into its hands, under its next wire id. */
  protected hold(call: Call, wireId: number, now: number): void {
    if (call.isStepped) this.#stepped.set(call.functionName, this.steppedCalls(call.functionName) + 1);
    else if (call.batch === null || call.batch.held++ === 0) this.busy += 1;
    call.wireId = wireId;
    call.handedAt = now;
    if (this.calls.size === 0) this.headSince = now;
    this.calls.set(wireId, call);
  }

  protected steppedCalls(functionName: string): number {
    return this.#stepped.get(functionName) ?? 0;
  }

  protected release(call: Call): void {
    const now = this.clock.monotonic();
    this.calls.delete(call.wireId);
    if (call.isStepped) this.#stepped.set(call.functionName, this.steppedCalls(call.functionName) - 1);
    else if (call.batch === null || --call.batch.held === 0) this.busy -= 1;
    this.headSince = now;
    if (this.calls.size === 0) this.idleSince = now;
  }

  /** It is ending by itself: a call given to it now would be lost. */
  protected retreat(): void {
    if (this.move("drain")) this.#events.onEnding();
  }

  /** It was found dead. Its calls are reported when it is gone: until then it might wake up and run them. */
  protected giveUp(why: string): void {
    this.silence = why;
    this.retreat();
    this.kill();
  }

  async #outlive(process: Process): Promise<void> {
    const exit = await process.exited;
    this.retreat();
    await this.lastWords();
    this.leave(exit);
  }
}
