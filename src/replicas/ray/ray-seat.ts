import { describeExit } from "../../host/start-kept.ts";
import type { Exit } from "../engine.ts";
import type { PlacedSeat, SeatOrder, SeatPlaceEvents } from "../remote/seat-place.ts";
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
};

/**
 * A seat that is an actor of Ray.
 *
 * waiting → begun → over; waiting → over. It is asked for again as long as it waits, and looked for once it has begun,
 * whenever another supervisor comes.
 */
export class RaySeat implements PlacedSeat {
  readonly placeName: string;
  readonly exited: Promise<Exit>;
  readonly #parts: RaySeatParts;
  readonly #order: SeatOrder;
  readonly #needs: Needs;
  readonly #events: SeatPlaceEvents;
  readonly #resolve: (exit: Exit) => void;
  #state: "waiting" | "begun" | "over" = "waiting";
  #isKilled = false;
  #why: string | null = null;

  constructor(parts: RaySeatParts, order: SeatOrder, needs: Needs, events: SeatPlaceEvents) {
    this.#parts = parts;
    this.#order = order;
    this.#needs = needs;
    this.#events = events;
    this.placeName = order.seatId;
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
    const seat = this.placeName;
    if (this.#state === "begun") this.#parts.say({ find: { seat } });
    else this.#parts.say({ begin: { seat, order: this.#order, needs: this.#needs } });
  }

  kill(): void {
    if (this.#isKilled || this.#state === "over") return;
    this.#isKilled = true;
    // Else the next supervisor ends whatever it is not told to keep.
    if (!this.#parts.say({ end: { seat: this.placeName } })) this.seeGone();
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
