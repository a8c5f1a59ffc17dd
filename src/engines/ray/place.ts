import type { Socket } from "node:net";
import type { Settings } from "../../config/setting-keys.ts";
import { describeRayTrouble, type JobsApi, openJobsApi, RayRefusal, whyTooOld } from "./jobs-api.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Log } from "../../kit/log.ts";
import type { Workload } from "../engine.ts";
import { SeatLine } from "../agent/seat-line.ts";
import type {
  AdoptedSeat,
  PlaceHome,
  PlacedSeat,
  SeatOrder,
  SeatPlace,
  SeatPlaceEvents,
} from "../agent/seat-place.ts";
import { needsOf, supervisorReader } from "./supervisor-messages.ts";
import { packJob, SupervisorJob } from "./supervisor-job.ts";
import { type RayActor, RaySeat } from "./ray-seat.ts";
import type { SupervisorMessage, SupervisorOrder } from "./supervisor-messages.ts";

export type RayPlaceParts = {
  readonly settings: Pick<Settings, "rayAddress" | "rayTokenFile" | "rayResources" | "replicasPerSeat">;
  readonly clock: Clock;
  readonly log: Log;
};

type Line = SeatLine<SupervisorMessage, SupervisorOrder>;

const PREFACE = /^millrace 1 ray (millrace-[a-z0-9]{12}) ([0-9a-f]{32})$/;
/** For seats that are ending when the service stops. */
const LAST_MS = 5_000;

/** Seats that are actors of a Ray cluster. They run on while Ray, or the supervisor there, does not answer. */
export class RayPlace implements SeatPlace {
  readonly name = "Ray";
  readonly isShared = true;
  readonly #parts: RayPlaceParts;
  readonly #api: JobsApi;
  /** The namespace of this service's actors. */
  readonly #namespace = `millrace-${randomName(12)}`;
  readonly #seats = new Map<string, RaySeat>();
  /** Seats of our namespace that other services have: a supervisor ends all that it is not told to keep. */
  readonly #handedOver = new Set<string>();
  #job: SupervisorJob | null = null;
  #line: Line | null = null;
  /** Why this cluster cannot be used. */
  #refusal: string | null = null;
  #onEmpty: (() => void) | null = null;

  private constructor(parts: RayPlaceParts, api: JobsApi) {
    this.#parts = parts;
    this.#api = api;
  }

  /** Throws if the cluster refuses us, or is too old. If it does not answer, connecting is retried later. */
  static async open(parts: RayPlaceParts): Promise<RayPlace> {
    const api = openJobsApi(parts.settings);
    try {
      const problem = whyTooOld(await api.version());
      if (problem !== null) throw new RayRefusal(0, problem);
    } catch (error) {
      if (error instanceof RayRefusal && (error.isUnauthorized || error.status === 0))
        throw new Error(`Ray at ${api.address}: ${error.message}`, { cause: error });
      parts.log.warn({ url: api.address, detail: describeRayTrouble(error) }, "starting without Ray");
    }
    return new RayPlace(parts, api);
  }

  openAt(home: PlaceHome): void {
    const { clock, log } = this.#parts;
    const namespace = this.#namespace;
    this.#job = new SupervisorJob({ api: this.#api, pack: packJob, namespace, home, clock, log });
  }

  begin(order: SeatOrder, workload: Workload, events: SeatPlaceEvents): PlacedSeat {
    const start = { order, needs: needsOf(workload, this.#parts.settings) };
    return this.#open({ seatId: order.seatId, namespace: this.#namespace, start }, events);
  }

  /** The actor stays in the namespace of the service that started it. */
  adopt({ seatId, placeName }: AdoptedSeat, _workload: Workload, events: SeatPlaceEvents): PlacedSeat {
    const namespace = placeName.slice(0, placeName.indexOf("/"));
    return this.#open({ seatId, namespace, start: null }, events);
  }

  #open(actor: RayActor, events: SeatPlaceEvents): RaySeat {
    const seat = new RaySeat(
      {
        say: (message) => this.#say(message),
        trouble: () => this.#job?.trouble ?? null,
        now: () => this.#parts.clock.now(),
        onGone: (gone) => this.#forget(gone),
        onLeft: ({ seatId }) => void (actor.namespace === this.#namespace && this.#handedOver.add(seatId)),
      },
      actor,
      events,
    );
    this.#seats.set(seat.seatId, seat);
    this.#handedOver.delete(seat.seatId);
    if (this.#refusal === null) seat.ask();
    else seat.refuse(this.#refusal);
    return seat;
  }

  readonly usher = (preface: string, socket: Socket): boolean => {
    const [, id, token = ""] = PREFACE.exec(preface) ?? [];
    if (id === undefined || !this.#job) return false;
    void this.#admit(this.#job, id, token, socket);
    return true;
  };

  /** Waits for ending seats, then ends the supervisor. */
  async close(): Promise<void> {
    const empty = new Promise<void>((resolve) => (this.#onEmpty = resolve));
    if (this.#seats.size > 0) await withTimeout(LAST_MS, empty, this.#parts.clock);
    const line = this.#line;
    this.#line = null;
    line?.close({ leave: {} });
    await this.#job?.stop();
  }

  async #admit(job: SupervisorJob, id: string, token: string, socket: Socket): Promise<void> {
    if (!(await job.isOurs(id, token)) || socket.destroyed) {
      socket.destroy();
      return;
    }
    const before = this.#line;
    const line: Line = new SeatLine(socket, this.#parts.clock, supervisorReader(), {
      onMessage: (message) => this.#hear(message),
      onFault: (fault) => this.#parts.log.warn({ detail: fault }, "the supervisor on Ray broke the protocol"),
      onError: (error) => this.#parts.log.error({ err: error }, "could not listen to the supervisor on Ray"),
      onEnded: () => this.#line === line && this.#lose(),
    });
    this.#line = line;
    before?.close();
    job.setConnected(true);
    this.#tellAll();
  }

  /** Tells a newly connected supervisor about all seats. */
  #tellAll(): void {
    const all = [...this.#seats.values()];
    for (const seat of all) if (seat.isKilled) seat.seeGone();
    const wanted = [...this.#seats.values()];
    this.#say({ keep: { seats: [...wanted.map(({ seatId }) => seatId), ...this.#handedOver] } });
    for (const seat of wanted) seat.ask();
  }

  #lose(): void {
    this.#line = null;
    this.#job?.setConnected(false);
  }

  #hear(message: SupervisorMessage): void {
    if ("hello" in message) this.#judge(message.hello);
    else if ("waiting" in message) this.#seats.get(message.waiting.seat)?.seeWaiting(message.waiting.why);
    else if ("begun" in message) this.#seats.get(message.begun.seat)?.seeBegun();
    else if ("ended" in message) {
      const { seat } = message.ended;
      this.#seats.get(seat)?.seeEnded(message.ended);
      this.#handedOver.delete(seat);
      // The supervisor can forget it.
      this.#say({ end: { seat } });
    }
  }

  #judge({ ray, python }: { readonly ray: string; readonly python: string }): void {
    const { log } = this.#parts;
    this.#refusal = whyTooOld(ray, python);
    if (this.#refusal === null) {
      log.info({ url: this.#api.address, python }, "the supervisor on Ray is up");
      return;
    }
    log.error({ url: this.#api.address, detail: this.#refusal }, "nothing can run on this Ray cluster");
    for (const seat of this.#seats.values()) seat.refuse(this.#refusal);
  }

  #say(message: SupervisorOrder): boolean {
    this.#line?.say(message);
    return this.#line !== null;
  }

  #forget({ seatId }: RaySeat): void {
    this.#seats.delete(seatId);
    if (this.#seats.size === 0) this.#onEmpty?.();
  }
}
