import { ApiError, describeTrouble } from "./api.ts";
import type { Exit, Workload } from "../engine.ts";
import type { PlacedSeat, SeatOrder, SeatPlaceEvents } from "../agent/seat-place.ts";
import type { PodApi } from "./pod-api.ts";
import type { PodQueue, QueuedPod } from "./pod-queue.ts";
import { exitOf } from "./pod-state.ts";
import type { SeenPod } from "./pod-state.ts";

/** What a pod needs of its place. */
export type PodSeatParts = {
  readonly pods: PodApi;
  readonly queue: PodQueue;
  readonly now: () => number;
  /** It has ended, and nothing of it is in the cluster any more. */
  readonly onGone: (seat: PodSeat) => void;
  /** It is left in the cluster as it was last seen. */
  readonly onLeft: (pod: SeenPod) => void;
};

/**
 * A seat that is a pod.
 *
 * waiting → asked for → there → ended; waiting → ended when nobody wants it any more; asked for → waiting when the
 * cluster had no room; asked for → ended when the cluster refused it. One that another service has made is there from the
 * beginning. One that has ended is removed from the cluster; one that was let go is not.
 */
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
  #wasAskedFor = false;
  #isBeingMade = false;
  /** The cluster has said that it is there. */
  #isThere = false;
  #isKilled = false;
  #hasEnded = false;
  #isLeaving = false;
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
    if (order) parts.queue.add(this);
    else this.#isThere = true;
  }

  /** It was there before a list that lacks it: it is gone. */
  get isThere(): boolean {
    return this.#isThere;
  }

  get isKilled(): boolean {
    return this.#isKilled;
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
    if (this.#isKilled || this.#hasEnded) return;
    this.#isKilled = true;
    if (this.#parts.queue.remove(this)) this.#giveUp();
    // One that is being made is removed as soon as that is settled.
    else if (!this.#isBeingMade) void this.#remove();
  }

  /** The pod is another service's, or is to be. */
  letGo(): void {
    this.#isKilled = true;
    this.#isLeaving = true;
    this.#end({ detail: "left to another service", initFailure: null });
    this.#parts.onGone(this);
    if (this.#seen) this.#parts.onLeft(this.#seen);
  }

  async make(): Promise<"done" | "later"> {
    // It may have been deleted while it waited for its secret.
    if (!this.#order || this.#hasEnded) return "done";
    this.#wasAskedFor = true;
    this.#isBeingMade = true;
    try {
      await this.#parts.pods.create(this.#order, this.#workload);
    } catch (error) {
      return this.#refused(error);
    } finally {
      this.#isBeingMade = false;
    }
    this.#isThere = true;
    // The cluster may have said more of the pod before its secret was made, and may not say it again.
    this.#obstacle = this.#seen?.obstacle ?? null;
    if (this.#isKilled) void this.#remove();
    return "done";
  }

  /** Takes what the cluster says of it. */
  see(pod: SeenPod): void {
    this.#seen = pod;
    this.#isThere = true;
    this.#obstacle = pod.obstacle;
    this.#setUpSince = pod.isBeingSetUp ? (this.#setUpSince ?? this.#parts.now()) : null;
    if (pod.isScheduled) this.#tell("scheduled");
    if (pod.hasStarted) this.#tell("pulled");
    // One whose digest nobody tells may be any, whatever its name: what is built there is for no other.
    if (pod.hasStarted) this.#image.resolve(pod.image ?? `unknown in ${this.placeName}`);
    if (!pod.end) return;
    this.#end(exitOf(pod.end, this.#workload.limits));
    // What has ended stays in the cluster until somebody removes it.
    void this.#remove();
  }

  /** It is not in the cluster any more. */
  seeGone(): void {
    this.#isThere = false;
    this.#end({ detail: this.#isKilled ? "ended" : "its pod was deleted", initFailure: null });
    this.#parts.onGone(this);
  }

  #refused(error: unknown): "done" | "later" {
    this.#obstacle = describeTrouble(error);
    if (!isFinal(error)) {
      if (!this.#isKilled) return "later";
      this.#giveUp();
      return "done";
    }
    this.#events.onError(error);
    const message = `The app cannot start: Kubernetes refused its pod: ${this.#obstacle}`;
    this.#end({ detail: this.#obstacle, initFailure: { message, traceback: message } });
    void this.#remove();
    return "done";
  }

  #giveUp(): void {
    this.#end({ detail: "stopped before it started", initFailure: null });
    // An answer may have been lost, and not the request.
    if (this.#wasAskedFor) void this.#remove();
    else this.#parts.onGone(this);
  }

  /** Insists until the cluster says that it goes, or is gone. */
  async #remove(): Promise<void> {
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    if (await this.#parts.pods.remove(this.placeName)) this.seeGone();
  }

  #tell(phase: "scheduled" | "pulled"): void {
    if (this.#phases.has(phase)) return;
    this.#phases.add(phase);
    this.#events.onPhase(phase, this.#parts.now());
  }

  #end(exit: Exit): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#obstacle = null;
    this.#setUpSince = null;
    this.#resolve(exit);
  }
}

/** Long after a machine has usually mounted volumes: at first it also warns of what comes a moment later. */
const SET_UP_MS = 10_000;
/** A token that is renewed just now, and somebody else's change at the same moment. */
const MAY_PASS: ReadonlySet<number> = new Set([401, 409]);

/** Refusals that pass: a quota is used up only for a while, and a new namespace gets its account a little later. */
const PASSES = /exceeded quota|error looking up service account/;

/** Whether asking again is of no use. */
function isFinal(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.isPassing) return false;
  const passes = error.status === 403 && PASSES.test(error.message);
  return !passes && !MAY_PASS.has(error.status);
}
