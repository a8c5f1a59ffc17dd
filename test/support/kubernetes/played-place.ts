import { pino } from "pino";
import { onTestFinished } from "vitest";
import { KubernetesApi } from "../../../src/engines/kubernetes/api.ts";
import { Condition } from "../../../src/kit/concurrency.ts";
import { KubernetesPlace } from "../../../src/engines/kubernetes/place.ts";
import type { PlacedSeat } from "../../../src/engines/agent/seat-place.ts";
import { SkippingClock } from "../clocks.ts";
import { until } from "../until.ts";
import { type Asked, PlayedApi } from "./played-api.ts";
import { WORKLOAD, kubernetesSettings, orderFor } from "./sample.ts";

/** Which of those seats somebody has, or may still take over. */
type KnownSeats = (seatIds: readonly string[]) => Promise<ReadonlySet<string>>;

/** A seat that was begun, with what was told of it. */
export type BegunSeat = { readonly seat: PlacedSeat; readonly told: string[] };

/**
 * Pods of a played cluster: what prepares it and its lists are answered, a watch is held, and everything else is the
 * test's to answer.
 */
export class PlayedPlace {
  readonly clock: SkippingClock;
  readonly place: KubernetesPlace;
  readonly #api: PlayedApi;
  readonly #state: State;

  private constructor(place: KubernetesPlace, clock: SkippingClock, api: PlayedApi, state: State) {
    this.place = place;
    this.clock = clock;
    this.#api = api;
    this.#state = state;
  }

  static async open(
    isHeld: (nodeId: string) => boolean = () => true,
    known: ReadonlySet<string> | KnownSeats = new Set(),
  ): Promise<PlayedPlace> {
    const state = new State();
    const played = await PlayedApi.open((asked) => state.take(asked));
    const clock = new SkippingClock();
    const place = await KubernetesPlace.open({
      settings: kubernetesSettings(),
      api: new KubernetesApi(played.access),
      clock,
      log: pino({ level: "silent" }),
      whose: { installationId: "i1", nodeId: "node-1" },
      python: "3.11.7",
      seatAddresses: ["10.0.0.5:4300"],
      isHeld: ({ nodeId }) => isHeld(nodeId),
      known:
        typeof known === "function"
          ? known
          : async (seatIds) => new Set(seatIds.filter((id) => known.has(id))),
    });
    onTestFinished(async () => {
      const closing = place.close();
      clock.skip(5_000);
      await closing;
    });
    return new PlayedPlace(place, clock, played, state);
  }

  /** What lists answer from now on. */
  set pods(pods: readonly object[]) {
    this.#state.pods = pods;
  }

  /** Whether what all pods need can be made. */
  set isPreparable(isPreparable: boolean) {
    this.#state.isPreparable = isPreparable;
  }

  /** How often something of what all pods need was made. */
  get preparations(): number {
    return this.#state.preparations;
  }

  begin(seatId: string): BegunSeat {
    const told: string[] = [];
    const seat = this.place.begin(orderFor(seatId), WORKLOAD, {
      onPhase: (phase) => told.push(phase),
      onError: (error) => told.push(`error: ${(error as Error).message}`),
    });
    return { seat, told };
  }

  /** Goes on with a pod of another service. */
  adopt(seatId: string): BegunSeat {
    const told: string[] = [];
    const adopted = { seatId, placeName: `p-1-${seatId}` };
    const seat = this.place.adopt(adopted, WORKLOAD, {
      onPhase: (phase) => told.push(phase),
      onError: (error) => told.push(`error: ${(error as Error).message}`),
    });
    return { seat, told };
  }

  /** The next request of the test's. */
  async next(): Promise<Asked> {
    return await this.#api.next();
  }

  /** The same, past the pauses between tries. */
  async nextInTime(): Promise<Asked> {
    const asked = this.#api.next();
    let hasCome = false;
    void asked.then(() => (hasCome = true));
    await until("the next try", () => {
      if (!hasCome) this.clock.skip(1_000);
      return hasCome;
    });
    return await asked;
  }

  /** Answers the requests that make a pod. */
  async make(seatId: string, pod: object): Promise<void> {
    const made = await this.next();
    if (made.method !== "POST" || !made.path.endsWith("/pods"))
      throw new Error(`${made.method} ${made.path}`);
    made.answer(201, pod);
    const secret = await this.next();
    if (!secret.path.endsWith("/secrets")) throw new Error(`no secret for ${seatId}`);
    secret.answer(201, {});
  }

  /** Sends an event to whoever watches. */
  async tell(type: string, object: object): Promise<void> {
    (await this.#state.watcher()).tell(type, object);
  }

  /** Cuts the watch, and lets the time pass until there is another. */
  async cutWatch(): Promise<void> {
    const before = await this.#state.watcher();
    before.cut();
    await this.#rewatched(before);
  }

  /** The version of the watch is too old: there is a new list, of these pods if any are given. */
  async expireWatch(pods?: readonly object[]): Promise<void> {
    if (pods) this.pods = pods;
    const before = await this.#state.watcher();
    before.tell("ERROR", { kind: "Status", code: 410 });
    await this.#rewatched(before);
  }

  async #rewatched(before: Asked): Promise<void> {
    await until("another watch", async () => {
      this.clock.skip(1_000);
      return (await this.#state.watcher()) !== before;
    });
  }
}

class State {
  pods: readonly object[] = [];
  isPreparable = true;
  preparations = 0;
  #version = 100;
  #watcher: Asked | null = null;
  readonly #news = new Condition();

  take(asked: Asked): boolean {
    const { method, path, query } = asked;
    if (method === "PATCH") {
      this.preparations += 1;
      if (this.isPreparable) asked.answer(200, { metadata: { uid: `uid of ${path}` } });
      else asked.answer(500, {});
    } else if (method === "GET" && query.get("watch") === "1") {
      // So that whoever asked knows that it has begun.
      asked.tell("BOOKMARK", { metadata: { resourceVersion: String(this.#version) } });
      this.#watcher = asked;
      this.#news.notify();
    } else if (method === "GET" && path.endsWith("/pods")) {
      this.#version += 1;
      asked.answer(200, { metadata: { resourceVersion: String(this.#version) }, items: this.pods });
    } else return false;
    return true;
  }

  async watcher(): Promise<Asked> {
    await until("a watch", () => this.#watcher !== null, this.#news);
    return this.#watcher!;
  }
}
