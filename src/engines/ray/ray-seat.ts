import { describeExit } from "../engine.ts";
import type { Exit } from "../engine.ts";
import type { PlacedSeat, SeatOrder, SeatPlaceEvents } from "../agent/seat-place.ts";
import type { Needs, SeatEnd, SupervisorOrder } from "./supervisor-messages.ts";

/** What a seat needs of its place. */
export type RaySeatParts = {
  /** Tells the supervisor; false while there is none. */
  readonly say: (order: SupervisorOrder) => boolean;
  /** What keeps everything there from starting; null for nothing. */
  readonly trouble: () => string | null;
  readonly now: () => number;
  /** Nothing of it is left on the cluster that is not ending by itself. */
  readonly onGone: (seat: RaySeat) => void;
  /** It is left on the cluster to another service. */
  readonly onLeft: (seat: RaySeat) => void;
};

/** Which actor a seat is, and what it is started with: null for one that another service has begun. */
export type RayActor = {
  readonly seatId: string;
  readonly namespace: string;
  readonly start: { readonly order: SeatOrder; readonly needs: Needs } | null;
};

/**
 * A seat that is an actor of Ray.
 *
 * waiting → begun → over; waiting → over. It is asked for again as long as it waits, and looked for once it has begun,
 * whenever another supervisor comes. One that another service has begun is looked for from the beginning.
 */
export class RaySeat implements PlacedSeat {
  readonly seatId: string;
  readonly placeName: string;
  readonly exited: Promise<Exit>;
  readonly #parts: RaySeatParts;
  readonly #actor: RayActor;
  readonly #events: SeatPlaceEvents;
  readonly #resolve: (exit: Exit) => void;
  #state: "waiting" | "begun" | "over";
  #isKilled = false;
  #why: string | null = null;

  constructor(parts: RaySeatParts, actor: RayActor, events: SeatPlaceEvents) {
    this.#parts = parts;
    this.#actor = actor;
    this.#events = events;
    this.#state = actor.start ? "waiting" : "begun";
    this.seatId = actor.seatId;
    this.placeName = `${actor.namespace}/${actor.seatId}`;
    const { promise, resolve } = Promise.withResolvers<Exit>();
    this.exited = promise;
    this.#resolve = resolve;
  }

  /** Nobody wants it any more. */
  get isKilled(): boolean {
    return this.#isKilled;
  }

  /** Asks a supervisor for it, which may be another than before. */
  ask(): void {
    const { seatId: seat, namespace, start } = this.#actor;
    if (this.#state === "begun" || !start) this.#parts.say({ find: { seat, namespace } });
    else this.#parts.say({ begin: { seat, ...start } });
  }

  kill(): void {
    if (this.#isKilled || this.#state === "over") return;
    this.#isKilled = true;
    // Else the next supervisor ends whatever it is not told to keep.
    if (!this.#parts.say({ end: { seat: this.seatId } })) this.seeGone();
  }

  /** The actor is another service's, or is to be. */
  letGo(): void {
    if (this.#state === "over") return;
    this.#parts.say({ forget: { seat: this.seatId } });
    this.#parts.onLeft(this);
    this.#end({ detail: "left to another service", initFailure: null });
  }

  obstacle(): string | null {
    return this.#state === "waiting" ? (this.#parts.trouble() ?? this.#why) : null;
  }

  seeWaiting(why: string): void {
    this.#why = why;
  }

  seeBegun(): void {
    if (this.#state !== "waiting") return;
    this.#state = "begun";
    this.#events.onPhase("scheduled", this.#parts.now());
  }

  seeEnded({ code, why, isOutOfMemory }: SeatEnd): void {
    const detail = code === null ? (why ?? "its Ray actor ended") : describeExit(code, null);
    this.#end({ detail, initFailure: null, ...(isOutOfMemory && { isOutOfMemory }) });
  }

  /** Nobody will tell any more how it ended. */
  seeGone(): void {
    this.#end({ detail: "ended", initFailure: null });
  }

  /** It cannot start on this cluster, however often it is tried. */
  refuse(why: string): void {
    const message = `The app cannot start: ${why}.`;
    this.#end({ detail: why, initFailure: { message, traceback: message } });
  }

  #end(exit: Exit): void {
    if (this.#state === "over") return;
    this.#state = "over";
    this.#resolve(exit);
    this.#parts.onGone(this);
  }
}
