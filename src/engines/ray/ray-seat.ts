import { describeExit, type Exit, ended, refused } from "../engine.ts";
import type { PlacedSeat, SeatOrder, SeatPlaceEvents } from "../agent/seat-place.ts";
import type { Moves } from "../protocol.ts";
import type { Needs, SeatEnd, SupervisorOrder } from "./supervisor-messages.ts";

/** What a seat needs from its place. */
export type RaySeatParts = {
  /** Tells the supervisor; returns false if there is none. */
  readonly say: (order: SupervisorOrder) => boolean;
  /** Why no seat can start now; null if they can. */
  readonly trouble: () => string | null;
  readonly now: () => number;
  /** The seat is over. */
  readonly onGone: (seat: RaySeat) => void;
  /** The actor was left to another service. */
  readonly onLeft: (seat: RaySeat) => void;
};

/** An actor, and what it is started with; null if another service has started it. */
export type RayActor = {
  readonly seatId: string;
  readonly namespace: string;
  readonly start: { readonly order: SeatOrder; readonly needs: Needs } | null;
};

type SeatState = "waiting" | "begun" | "over";

/** What may happen to a seat in each state; `RaySeat` ignores anything else. */
const RAY_SEAT_MOVES: Moves<SeatState, "begin" | "end"> = {
  // Every new supervisor is asked to start it.
  waiting: { begin: "begun", end: "over" },
  // Every new supervisor is asked to find it. An actor that another service started is in this state from the start.
  begun: { end: "over" },
  over: {},
};

/** A seat that is an actor of Ray. */
export class RaySeat implements PlacedSeat {
  readonly seatId: string;
  readonly placeName: string;
  readonly exited: Promise<Exit>;
  readonly #parts: RaySeatParts;
  readonly #actor: RayActor;
  readonly #events: SeatPlaceEvents;
  readonly #resolve: (exit: Exit) => void;
  #state: SeatState;
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

  get isKilled(): boolean {
    return this.#isKilled;
  }

  /** Asks the current supervisor for it. */
  ask(): void {
    const { seatId: seat, namespace, start } = this.#actor;
    if (this.#state === "begun" || !start) this.#parts.say({ find: { seat, namespace } });
    else this.#parts.say({ begin: { seat, ...start } });
  }

  kill(): void {
    if (this.#isKilled || this.#state === "over") return;
    this.#isKilled = true;
    // Without a supervisor now, the next one ends it, because it is not told to keep it.
    if (!this.#parts.say({ end: { seat: this.seatId } })) this.seeGone();
  }

  /** Leaves the actor to another service. */
  letGo(): void {
    if (this.#state === "over") return;
    this.#parts.say({ forget: { seat: this.seatId } });
    this.#parts.onLeft(this);
    this.#end(ended("left to another service"));
  }

  obstacle(): string | null {
    return this.#state === "waiting" ? (this.#parts.trouble() ?? this.#why) : null;
  }

  seeWaiting(why: string): void {
    this.#why = why;
  }

  seeBegun(): void {
    if (this.#move("begin")) this.#events.onPhase("scheduled", this.#parts.now());
  }

  seeEnded({ code, why, isOutOfMemory }: SeatEnd): void {
    const detail = code === null ? (why ?? "its Ray actor ended") : describeExit(code, null);
    this.#end({ detail, initFailure: null, ...(isOutOfMemory && { isOutOfMemory }) });
  }

  /** How it ended will not be reported any more. */
  seeGone(): void {
    this.#end(ended("ended"));
  }

  /** It cannot start on this cluster. */
  refuse(why: string): void {
    this.#end(refused(why));
  }

  #end(exit: Exit): void {
    if (!this.#move("end")) return;
    this.#resolve(exit);
    this.#parts.onGone(this);
  }

  /** The one place where events are checked against the table. */
  #move(event: "begin" | "end"): boolean {
    const next = RAY_SEAT_MOVES[this.#state][event];
    if (next === undefined) return false;
    this.#state = next;
    return true;
  }
}
