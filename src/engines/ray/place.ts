import type { Socket } from "node:net";
import { matches } from "../../host/gpus/source.ts";
import type { GpuWish } from "../../model/gpu.ts";
import type { Settings } from "../../config/setting-keys.ts";
import { describeRayTrouble, type JobsApi, openJobsApi, RayRefusal, whyTooOld } from "./jobs-api.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Log } from "../../kit/log.ts";
import { type Workload, type Exit, ended, describeExit, refused } from "../engine.ts";
import { SeatLine } from "../agent/seat-line.ts";
import type { AdoptedSeat, PlaceHome, PlacedSeat, SeatOrder, SeatPlace } from "../agent/seat-place.ts";
import type { SeatPlaceEvents } from "../agent/seat-place.ts";
import { needsOf, supervisorReader, type Begin, type SeatEnd } from "./supervisor-messages.ts";
import { packJob, SupervisorJob } from "./supervisor-job.ts";
import type { SupervisorMessage, SupervisorOrder } from "./supervisor-messages.ts";
import type { Moves } from "../protocol.ts";

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
    const accelerators = workload.gpus ? acceleratorsOf(workload.gpus) : [];
    const needs = needsOf(workload, this.#parts.settings);
    const start = { order, needs, ...(accelerators.length > 0 && { accelerators }) };
    return this.#open(order.seatId, this.#namespace, start, events);
  }

  /** The actor stays in the namespace of the service that started it. */
  adopt({ seatId, placeName }: AdoptedSeat, _workload: Workload, events: SeatPlaceEvents): PlacedSeat {
    return this.#open(seatId, placeName.slice(0, placeName.indexOf("/")), null, events);
  }

  #open(seatId: string, namespace: string, start: RaySeatParts["start"], events: SeatPlaceEvents): RaySeat {
    const seat = new RaySeat({
      seatId,
      namespace,
      start,
      say: (message) => this.#say(message),
      trouble: () => this.#job?.trouble ?? null,
      onBegun: () => events.onPhase("scheduled", this.#parts.clock.now()),
      onLeft: () => void (namespace === this.#namespace && this.#handedOver.add(seatId)),
      onGone: () => {
        this.#seats.delete(seatId);
        if (this.#seats.size === 0) this.#onEmpty?.();
      },
    });
    this.#seats.set(seatId, seat);
    this.#handedOver.delete(seatId);
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
      onEnded: () => {
        if (this.#line !== line) return;
        this.#line = null;
        job.setConnected(false);
      },
    });
    this.#line = line;
    before?.close();
    job.setConnected(true);
    // A new supervisor learns about all seats.
    for (const seat of this.#seats.values()) if (seat.isKilled) seat.seeGone();
    this.#say({ keep: { seats: [...this.#seats.keys(), ...this.#handedOver] } });
    for (const seat of this.#seats.values()) seat.ask();
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
}

type RaySeatParts = {
  readonly seatId: string;
  readonly namespace: string;
  /** What it is started with; null if another service has started it. */
  readonly start: Omit<Begin, "seat"> | null;
  /** Tells the supervisor; returns false if there is none. */
  readonly say: (order: SupervisorOrder) => boolean;
  /** Why no seat can start now; null if they can. */
  readonly trouble: () => string | null;
  readonly onBegun: () => void;
  readonly onGone: () => void;
  readonly onLeft: () => void;
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

class RaySeat implements PlacedSeat {
  readonly placeName: string;
  readonly #exited = Promise.withResolvers<Exit>();
  readonly exited = this.#exited.promise;
  isKilled = false;
  readonly #parts: RaySeatParts;
  #state: SeatState;
  #why: string | null = null;

  constructor(parts: RaySeatParts) {
    this.#parts = parts;
    this.#state = parts.start ? "waiting" : "begun";
    this.placeName = `${parts.namespace}/${parts.seatId}`;
  }

  ask(): void {
    const { seatId: seat, namespace, start, say } = this.#parts;
    if (this.#state === "begun" || !start) say({ find: { seat, namespace } });
    else say({ begin: { seat, ...start } });
  }

  kill(): void {
    if (this.isKilled || this.#state === "over") return;
    this.isKilled = true;
    // Without a supervisor now, the next one ends it, because it is not told to keep it.
    if (!this.#parts.say({ end: { seat: this.#parts.seatId } })) this.seeGone();
  }

  letGo(): void {
    if (this.#state === "over") return;
    this.#parts.say({ forget: { seat: this.#parts.seatId } });
    this.#parts.onLeft();
    this.#end(ended("left to another service"));
  }

  obstacle(): string | null {
    return this.#state === "waiting" ? (this.#parts.trouble() ?? this.#why) : null;
  }

  seeWaiting(why: string): void {
    this.#why = why;
  }

  seeBegun(): void {
    if (this.#move("begin")) this.#parts.onBegun();
  }

  seeEnded({ code, why, isOutOfMemory }: SeatEnd): void {
    const detail = code === null ? (why ?? "its Ray actor ended") : describeExit(code, null);
    this.#end({ detail, initFailure: null, ...(isOutOfMemory && { isOutOfMemory }) });
  }

  /** How it ended will not be reported any more. */
  seeGone(): void {
    this.#end(ended("ended"));
  }

  refuse(why: string): void {
    this.#end(refused(why));
  }

  #end(exit: Exit): void {
    if (!this.#move("end")) return;
    this.#exited.resolve(exit);
    this.#parts.onGone();
  }

  #move(event: "begin" | "end"): boolean {
    const next = RAY_SEAT_MOVES[this.#state][event];
    if (next === undefined) return false;
    this.#state = next;
    return true;
  }
}

/** The models that Ray lists (`ray.util.accelerators`), and others that it names by the same rule. */
const RAY_MODELS =
  "K80 P4 P100 V100 T4 A10G L4 L40S A100 H20 H100 H200 B200 B300 GB200 GB300 A10 A30 A40 L40".split(" ");
/** Memory in a name, such as `A100_80GB`, which Ray does not know; not that of a MIG instance. */
const MEMORY_IN_NAME = /[\s_-]\d{1,4}GI?B?(?![\w.])/gi;

/** Ray's names for the models of a wish, in its order; none if every GPU will do, or if Ray knows none of them. */
export function acceleratorsOf({ models }: GpuWish): string[] {
  const known = models.flatMap((asked) => {
    const model = asked.replaceAll(MEMORY_IN_NAME, "");
    return RAY_MODELS.filter((name) => matches(model, { model: name, memoryBytes: 0 }));
  });
  return models.some((asked) => asked.trim().toUpperCase() === "ANY") ? [] : [...new Set(known)];
}
