import { ApiError, describeTrouble } from "./api.ts";
import type { Exit, Workload } from "../engine.ts";
import type { PlacedSeat, SeatOrder, SeatPlaceEvents } from "../agent/seat-place.ts";
import type { Moves } from "../protocol.ts";
import type { PodApi } from "./pod-api.ts";
import { exitOf } from "./pod-state.ts";
import type { SeenPod } from "./pod-state.ts";
import { backoffMs } from "../../kit/backoff.ts";
import type { Clock } from "../../kit/clock.ts";
import { pause } from "../../kit/pause.ts";

/** What a pod needs of its place. */
type PodSeatParts = {
  readonly pods: PodApi;
  readonly queue: PodQueue;
  readonly now: () => number;
  /** It has ended, and nothing of it is in the cluster any more. `isWanted`: this service did not ask for that. */
  readonly onGone: (seat: PodSeat, isWanted: boolean) => void;
  /** It is left in the cluster as it was last seen. */
  readonly onLeft: (pod: SeenPod) => void;
};

/** Where a pod is on its way into the cluster and out of it. */
type PodState = "waiting" | "making" | "again" | "there" | "unwanted" | "removing" | "ended" | "gone";
type PodEvent = "make" | "made" | "delay" | "refuse" | "end" | "kill" | "vanish" | "letGo";

/** What may happen to a pod in each state; `PodSeat` ignores anything else. */
export const POD_MOVES: Moves<PodState, PodEvent> = {
  // In the queue; the cluster was never asked for it.
  waiting: { make: "making", kill: "gone", letGo: "gone" },
  // The cluster was asked, and may have made it before it answers.
  making: {
    made: "there",
    delay: "again",
    refuse: "ended",
    end: "ended",
    kill: "unwanted",
    vanish: "gone",
    letGo: "gone",
  },
  // In the queue again. The cluster may have it all the same: an answer may have been lost, and not the request.
  again: { make: "making", end: "ended", kill: "removing", vanish: "gone", letGo: "gone" },
  there: { end: "ended", kill: "removing", vanish: "gone", letGo: "gone" },
  // Killed while it was being made: it is removed as soon as that is settled.
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
  // It ended by itself, or was refused, and what is left of it is being removed from the cluster.
  ended: { vanish: "gone", letGo: "gone" },
  // Nothing of it is in the cluster, or another service has it.
  gone: {},
};

/** A seat that is a pod. One that another service has made is there from the beginning. */
export class PodSeat implements PlacedSeat, QueuedPod {
  readonly placeName: string;
  readonly exited: Promise<Exit>;
  readonly image: Promise<string>;
  readonly #parts: PodSeatParts;
  /** Null for one that another service has made. */
  readonly #order: SeatOrder | null;
  readonly #workload: Workload;
  readonly #events: SeatPlaceEvents;
  readonly #resolve: (exit: Exit) => void;
  readonly #image = Promise.withResolvers<string>();
  #state: PodState;
  #obstacle: string | null = null;
  /** Since when its machine makes what its containers start in; null where it does not. */
  #setUpSince: number | null = null;
  #seen: SeenPod | null = null;
  readonly #phases = new Set<string>();

  constructor(
    parts: PodSeatParts,
    name: string,
    order: SeatOrder | null,
    workload: Workload,
    events: SeatPlaceEvents,
  ) {
    this.#parts = parts;
    this.#order = order;
    this.#workload = workload;
    this.#events = events;
    this.placeName = name;
    const { promise, resolve } = Promise.withResolvers<Exit>();
    this.exited = promise;
    this.#resolve = resolve;
    this.image = this.#image.promise;
    this.#state = order ? "waiting" : "there";
    if (order) parts.queue.add(this);
  }

  /** The cluster has it, or is asked to remove it: if a list lacks it, it is gone. */
  get isThere(): boolean {
    return this.#seen !== null || IN_CLUSTER.has(this.#state);
  }

  obstacle(): string | null {
    return this.#obstacle;
  }

  /** Its machine takes long to make what its containers start in, and the pod itself does not say why. */
  get isStuck(): boolean {
    const since = this.#setUpSince ?? Number.POSITIVE_INFINITY;
    return this.#obstacle === null && this.#parts.now() - since >= SET_UP_MS;
  }

  /** Asks the cluster what it has warned of. */
  async askWhy(): Promise<void> {
    const warning = await this.#parts.pods.lastWarning(this.placeName);
    // Meanwhile it may have started, or ended.
    if (this.isStuck) this.#obstacle = warning;
  }

  kill(): void {
    const isQueued = this.#state === "waiting" || this.#state === "again";
    if (!this.#move("kill") || !isQueued) return;
    this.#parts.queue.remove(this);
    this.#end({ detail: "stopped before it started", initFailure: null });
  }

  /** The pod is another service's, or is to be. */
  letGo(): void {
    if (!this.#move("letGo")) return;
    this.#end({ detail: "left to another service", initFailure: null });
    if (this.#seen) this.#parts.onLeft(this.#seen);
  }

  async make(): Promise<"done" | "later"> {
    // It may have been deleted while it waited for its secret.
    if (!this.#order || !this.#move("make")) return "done";
    try {
      await this.#parts.pods.create(this.#order, this.#workload);
    } catch (error) {
      return this.#refused(error);
    }
    // The cluster may have said more of the pod before its secret was made, and may not say it again.
    this.#obstacle = this.#seen?.obstacle ?? null;
    this.#move("made");
    return "done";
  }

  /** Takes what the cluster says of it. */
  see(pod: SeenPod): void {
    this.#seen = pod;
    this.#obstacle = pod.obstacle;
    this.#setUpSince = pod.isBeingSetUp ? (this.#setUpSince ?? this.#parts.now()) : null;
    if (pod.isScheduled) this.#tell("scheduled");
    if (pod.hasStarted) this.#tell("pulled");
    // One whose digest nobody tells may be any, whatever its name: what is built there is for no other.
    if (pod.hasStarted) this.#image.resolve(pod.image ?? `unknown in ${this.placeName}`);
    if (!pod.end) return;
    this.#end(exitOf(pod.end, this.#workload.limits));
    this.#move("end");
  }

  /** It is not in the cluster any more. */
  seeGone(): void {
    const detail = UNWANTED.has(this.#state) ? "ended" : "its pod was deleted";
    if (this.#move("vanish")) this.#end({ detail, initFailure: null });
  }

  #refused(error: unknown): "done" | "later" {
    this.#obstacle = describeTrouble(error);
    if (isFinal(error)) {
      this.#events.onError(error);
      const message = `The app cannot start: Kubernetes refused its pod: ${this.#obstacle}`;
      this.#end({ detail: this.#obstacle, initFailure: { message, traceback: message } });
      this.#move("refuse");
      return "done";
    }
    if (this.#move("delay") && this.#state === "again") return "later";
    this.#end({ detail: "stopped before it started", initFailure: null });
    return "done";
  }

  /** The one place where events are checked against the table. False for one that changes nothing any more. */
  #move(event: PodEvent): boolean {
    const before = this.#state;
    const next = POD_MOVES[before][event];
    if (next === undefined) return false;
    this.#state = next;
    const isWanted = event !== "kill" && event !== "letGo" && !UNWANTED.has(before);
    if (next === "gone") this.#parts.onGone(this, isWanted);
    // What has ended stays in the cluster until somebody removes it.
    if (next === "removing" || next === "ended") void this.#remove();
    return true;
  }

  /** Insists until the cluster says that it goes, or is gone. */
  async #remove(): Promise<void> {
    if (await this.#parts.pods.remove(this.placeName)) this.seeGone();
  }

  #tell(phase: "scheduled" | "pulled"): void {
    if (this.#phases.has(phase)) return;
    this.#phases.add(phase);
    this.#events.onPhase(phase, this.#parts.now());
  }

  #end(exit: Exit): void {
    this.#obstacle = null;
    this.#setUpSince = null;
    this.#resolve(exit);
  }
}

const IN_CLUSTER: ReadonlySet<PodState> = new Set(["there", "removing", "ended"]);
/** Killed by this service. */
const UNWANTED: ReadonlySet<PodState> = new Set(["unwanted", "removing"]);
/** Long after a machine has usually mounted volumes: at first it also warns of what comes a moment later. */
const SET_UP_MS = 10_000;
/** A token that is renewed just now, and somebody else's change at the same moment. */
const MAY_PASS: ReadonlySet<number> = new Set([401, 409]);

/** Refusals that pass: a quota is used up only for a while, and a new namespace gets its account a little later. */
const PASSES = /exceeded quota|error looking up service account/;

/** Whether asking again is of no use. */
function isFinal(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.isTransient) return false;
  const passes = error.status === 403 && PASSES.test(error.message);
  return !passes && !MAY_PASS.has(error.status);
}

/** Something that waits to be made. */
type QueuedPod = {
  /** Tries to make it; `later` where the cluster has no room now, or does not answer. */
  make(): Promise<"done" | "later">;
};

/** As many as the API takes at once from one of its clients. */
const AT_ONCE = 8;
const FIRST_WAIT_MS = 500;
/** Short enough that room is used soon after it is there. */
const LONGEST_WAIT_MS = 5_000;

/**
 * The pods that are to be made, a few at a time. When one finds no room, all pause, and it goes to the end: however
 * many wait, a full cluster is asked at a steady, low rate, and one that is too large holds up nobody for good.
 */
export class PodQueue {
  readonly #clock: Clock;
  readonly #stopped: AbortSignal;
  #waiting: QueuedPod[] = [];
  #inHand = 0;
  /** Since the last one that was made. */
  #failures = 0;
  #resting: Promise<void> | null = null;

  constructor(clock: Clock, stopped: AbortSignal) {
    this.#clock = clock;
    this.#stopped = stopped;
  }

  add(pod: QueuedPod): void {
    this.#waiting.push(pod);
    this.#pump();
  }

  /** False where it is not waiting: it is being made, or was. */
  remove(pod: QueuedPod): boolean {
    const left = this.#waiting.filter((other) => other !== pod);
    const isFound = left.length < this.#waiting.length;
    this.#waiting = left;
    return isFound;
  }

  #pump(): void {
    // While there was no room, one finds out for all.
    const most = this.#failures > 0 ? 1 : AT_ONCE;
    while (this.#resting === null && this.#inHand < most && !this.#stopped.aborted) {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#inHand += 1;
      void this.#make(next);
    }
  }

  async #make(pod: QueuedPod): Promise<void> {
    const result = await pod.make();
    this.#inHand -= 1;
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
