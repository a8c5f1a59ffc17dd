import { ApiError, describeTrouble } from "./api.ts";
import { type Exit, type Workload, STOPPED, ended } from "../engine.ts";
import type { PlacedSeat, SeatOrder, SeatPlaceEvents } from "../agent/seat-place.ts";
import type { Moves } from "../protocol.ts";
import type { PodApi } from "./pod-api.ts";
import { exitOf, type SeenPod } from "./pod-state.ts";
import { backoffMs } from "../../kit/retry.ts";
import { type Clock, pause } from "../../kit/clock.ts";

type PodSeatParts = {
  readonly placeName: string;
  /** Null for a pod that was taken over. */
  readonly order: SeatOrder | null;
  readonly workload: Workload;
  readonly events: SeatPlaceEvents;
  readonly pods: PodApi;
  readonly queue: PodQueue;
  readonly now: () => number;
  /** The pod has ended and is gone. `isWanted`: this service did not ask for that. */
  readonly onGone: (isWanted: boolean) => void;
  /** The pod stays in the cluster for another service. */
  readonly onLeft: (pod: SeenPod) => void;
};

type PodState = "waiting" | "making" | "again" | "there" | "unwanted" | "removing" | "ended" | "gone";
type PodEvent = "make" | "made" | "delay" | "refuse" | "end" | "kill" | "vanish" | "letGo";

/** What may happen to a pod in each state; `PodSeat` ignores anything else. */
export const POD_MOVES: Moves<PodState, PodEvent> = {
  // In the queue; the cluster has not been asked for it.
  waiting: { make: "making", kill: "gone", letGo: "gone" },
  // The cluster was asked, and may have created it before it answers.
  making: {
    made: "there",
    delay: "again",
    refuse: "ended",
    end: "ended",
    kill: "unwanted",
    vanish: "gone",
    letGo: "gone",
  },
  // In the queue again. The cluster may have created it: only the answer may have been lost.
  again: { make: "making", end: "ended", kill: "removing", vanish: "gone", letGo: "gone" },
  there: { end: "ended", kill: "removing", vanish: "gone", letGo: "gone" },
  // Killed while it was being created: it is removed once the answer is known.
  unwanted: {
    made: "removing",
    delay: "removing",
    refuse: "removing",
    end: "removing",
    vanish: "gone",
    letGo: "gone",
  },
  // Killed, and being removed from the cluster.
  removing: { vanish: "gone", letGo: "gone" },
  // It ended by itself, or was refused, and is being removed from the cluster.
  ended: { vanish: "gone", letGo: "gone" },
  // It is not in the cluster, or another service has it.
  gone: {},
};

/** A seat that is a pod. A pod that was taken over starts in the state `there`. */
export class PodSeat implements PlacedSeat {
  readonly placeName: string;
  readonly #exited = Promise.withResolvers<Exit>();
  readonly exited = this.#exited.promise;
  readonly #image = Promise.withResolvers<string>();
  readonly image = this.#image.promise;
  readonly #parts: PodSeatParts;
  #state: PodState;
  #obstacle: string | null = null;
  /** Since when its machine has been preparing volumes and network; null if it is not. */
  #setUpSince: number | null = null;
  #seen: SeenPod | null = null;
  readonly #phases = new Set<string>();

  constructor(parts: PodSeatParts) {
    this.#parts = parts;
    this.placeName = parts.placeName;
    this.#state = parts.order ? "waiting" : "there";
    if (parts.order) parts.queue.add(this);
  }

  /** The cluster has it, or was asked to remove it: if a list lacks it, it is gone. */
  get isThere(): boolean {
    return this.#seen !== null || IN_CLUSTER.has(this.#state);
  }

  obstacle(): string | null {
    return this.#obstacle;
  }

  /** Its machine takes long to prepare volumes and network, and the pod's status does not say why. */
  get isStuck(): boolean {
    const since = this.#setUpSince ?? Number.POSITIVE_INFINITY;
    return this.#obstacle === null && this.#parts.now() - since >= SET_UP_MS;
  }

  async askWhy(): Promise<void> {
    const warning = await this.#parts.pods.lastWarning(this.placeName);
    // It may have started or ended meanwhile.
    if (this.isStuck) this.#obstacle = warning;
  }

  kill(): void {
    const isQueued = this.#state === "waiting" || this.#state === "again";
    if (!this.#move("kill") || !isQueued) return;
    this.#parts.queue.remove(this);
    this.#end(STOPPED);
  }

  letGo(): void {
    if (!this.#move("letGo")) return;
    this.#end(ended("left to another service"));
    if (this.#seen) this.#parts.onLeft(this.#seen);
  }

  /** Tries to create it; returns `later` if the cluster has no room, or does not answer. */
  async make(): Promise<"done" | "later"> {
    // It may have been deleted while it was in the queue.
    const { order, workload, pods } = this.#parts;
    if (!order || !this.#move("make")) return "done";
    try {
      await pods.create(order, workload);
    } catch (error) {
      return this.#refused(error);
    }
    // Status that arrived before the secret was created may not arrive again.
    this.#obstacle = this.#seen?.obstacle ?? null;
    this.#move("made");
    return "done";
  }

  see(pod: SeenPod): void {
    this.#seen = pod;
    this.#obstacle = pod.obstacle;
    this.#setUpSince = pod.isBeingSetUp ? (this.#setUpSince ?? this.#parts.now()) : null;
    if (pod.isScheduled) this.#tell("scheduled");
    if (pod.hasStarted) this.#tell("pulled");
    // Without a digest the image is unknown, so what is built in it fits no other seat.
    if (pod.hasStarted) this.#image.resolve(pod.image ?? `unknown in ${this.placeName}`);
    if (!pod.end) return;
    this.#end(exitOf(pod.end, this.#parts.workload.limits));
    this.#move("end");
  }

  seeGone(): void {
    const detail = UNWANTED.has(this.#state) ? "ended" : "its pod was deleted";
    if (this.#move("vanish")) this.#end(ended(detail));
  }

  #refused(error: unknown): "done" | "later" {
    this.#obstacle = describeTrouble(error);
    if (isFinal(error)) {
      this.#parts.events.onError(error);
      const message = `The app cannot start: Kubernetes refused its pod: ${this.#obstacle}`;
      this.#end({ detail: this.#obstacle, initFailure: { message, traceback: message } });
      this.#move("refuse");
      return "done";
    }
    if (this.#move("delay") && this.#state === "again") return "later";
    this.#end(STOPPED);
    return "done";
  }

  /** The one place where events are checked against the table. Returns false for one that is ignored. */
  #move(event: PodEvent): boolean {
    const before = this.#state;
    const next = POD_MOVES[before][event];
    if (next === undefined) return false;
    this.#state = next;
    const isWanted = event !== "kill" && event !== "letGo" && !UNWANTED.has(before);
    if (next === "gone") this.#parts.onGone(isWanted);
    // An ended pod stays in the cluster until it is removed.
    if (next === "removing" || next === "ended") void this.#remove();
    return true;
  }

  /** Retries until the cluster accepts the removal, or the pod is gone. */
  async #remove(): Promise<void> {
    if (await this.#parts.pods.remove(this.placeName)) this.seeGone();
  }

  #tell(phase: "scheduled" | "pulled"): void {
    if (this.#phases.has(phase)) return;
    this.#phases.add(phase);
    this.#parts.events.onPhase(phase, this.#parts.now());
  }

  #end(exit: Exit): void {
    this.#obstacle = null;
    this.#setUpSince = null;
    this.#exited.resolve(exit);
  }
}

const IN_CLUSTER: ReadonlySet<PodState> = new Set(["there", "removing", "ended"]);
/** Killed by this service. */
const UNWANTED: ReadonlySet<PodState> = new Set(["unwanted", "removing"]);
/** Longer than mounting volumes usually takes: early warnings often resolve themselves. */
const SET_UP_MS = 10_000;
/** Statuses that may be transient: a token that is just being renewed, and a concurrent change. */
const MAY_BE_TRANSIENT: ReadonlySet<number> = new Set([401, 409]);

/** Transient refusals: a used-up quota, and a new namespace whose service account does not exist yet. */
const TRANSIENT = /exceeded quota|error looking up service account/;

function isFinal(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.isTransient) return false;
  const isTransient = error.status === 403 && TRANSIENT.test(error.message);
  return !isTransient && !MAY_BE_TRANSIENT.has(error.status);
}

/** As many requests as the API takes from one client at once. */
const AT_ONCE = 8;
const FIRST_WAIT_MS = 500;
/** Short, so that new capacity is used soon. */
const LONGEST_WAIT_MS = 5_000;

/**
 * Creates pods, a few at a time. When one finds no room, all pause and it goes to the end of the queue: a full cluster
 * gets requests at a steady, low rate, and a pod that is too large does not block the others.
 */
export class PodQueue {
  readonly #clock: Clock;
  readonly #stopped: AbortSignal;
  #waiting: PodSeat[] = [];
  #inFlight = 0;
  #failures = 0;
  #resting: Promise<void> | null = null;

  constructor(clock: Clock, stopped: AbortSignal) {
    this.#clock = clock;
    this.#stopped = stopped;
  }

  add(pod: PodSeat): void {
    this.#waiting.push(pod);
    this.#pump();
  }

  remove(pod: PodSeat): void {
    this.#waiting = this.#waiting.filter((other) => other !== pod);
  }

  #pump(): void {
    // While the cluster has no room, a single pod probes for all.
    const most = this.#failures > 0 ? 1 : AT_ONCE;
    while (this.#resting === null && this.#inFlight < most && !this.#stopped.aborted) {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#inFlight += 1;
      void this.#make(next);
    }
  }

  async #make(pod: PodSeat): Promise<void> {
    const result = await pod.make();
    this.#inFlight -= 1;
    if (result === "done") this.#failures = 0;
    else {
      this.#waiting.push(pod);
      this.#resting ??= this.#rest();
    }
    this.#pump();
  }

  async #rest(): Promise<void> {
    this.#failures += 1;
    await pause(this.#clock, backoffMs(this.#failures, FIRST_WAIT_MS, LONGEST_WAIT_MS), this.#stopped);
    this.#resting = null;
    this.#pump();
  }
}
