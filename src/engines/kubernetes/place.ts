import { readPod, type SeenPod } from "./pod-state.ts";
import type { Settings } from "../../config/setting-keys.ts";
import { ApiError, describeTrouble, type KubernetesApi } from "./api.ts";
import { Watch } from "./watch.ts";
import { type Clock, type Timer, withTimeout } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { ImageBuilds } from "../build-seats.ts";
import type { Workload } from "../engine.ts";
import type { AdoptedSeat, PlacedSeat, SeatOrder, SeatPlace, SeatPlaceEvents } from "../agent/seat-place.ts";
import { INSTALLATION, type Whose } from "./labels.ts";
import { PodApi } from "./pod-api.ts";
import { podName, podPartsOf, PYTHON_DIR } from "./pod-spec.ts";
import { PodQueue, PodSeat } from "./pod-seat.ts";
import { imageTools } from "./image-pod.ts";

/** The owner of a pod. */
type Held = Pick<SeenPod, "nodeId" | "seatId">;

type LeftoverParts = {
  /** Whether a living service owns it; true if unknown. */
  readonly isHeld: (pod: Held) => boolean;
  /** Which of those seats another service has taken over, or may still take over. */
  readonly known: (seatIds: readonly string[]) => Promise<ReadonlySet<string>>;
  /** Ends it, unless its name belongs to a newer pod by then. */
  readonly remove: (pod: SeenPod) => Promise<unknown>;
};

/**
 * Pods of other services of the installation. Pods of living services are never touched. Pods of dead services are
 * removed, unless another service has taken them over, or may still do so.
 */
class Leftovers {
  readonly #parts: LeftoverParts;
  readonly #pods = new Map<string, SeenPod>();
  readonly #leaving = new Set<string>();

  constructor(parts: LeftoverParts) {
    this.#parts = parts;
  }

  see(pod: SeenPod): void {
    this.#pods.set(pod.name, pod);
  }

  seeGone(name: string): void {
    this.#pods.delete(name);
  }

  /** Takes a pod over for this service; null if there is none of that name. */
  take(name: string): SeenPod | null {
    const pod = this.#pods.get(name) ?? null;
    this.#pods.delete(name);
    return pod;
  }

  /** Forgets pods that a complete list lacks. */
  keepOnly(names: ReadonlySet<string>): void {
    for (const name of this.#pods.keys()) if (!names.has(name)) this.#pods.delete(name);
  }

  /** Removes pods without an owner. `isLast`: also those that could still be taken over. */
  async sweep(isLast = false): Promise<void> {
    const { isHeld, known, remove } = this.#parts;
    const lost = [...this.#pods.values()].filter(
      (pod) => !pod.isLeaving && !this.#leaving.has(pod.uid) && !isHeld(pod),
    );
    const running = lost.filter(({ end }) => end === null).map(({ seatId }) => seatId);
    const wanted = isLast || running.length === 0 ? new Set<string>() : await known(running);
    // A pod may have been taken over or changed meanwhile: the next sweep decides.
    const unwanted = lost.filter((pod) => !wanted.has(pod.seatId) && this.#pods.get(pod.name) === pod);
    const removals = unwanted.map(async (pod) => {
      this.#leaving.add(pod.uid);
      await remove(pod).finally(() => this.#leaving.delete(pod.uid));
    });
    await Promise.all(removals);
  }
}

export type KubernetesParts = {
  readonly settings: Settings;
  /** Closed together with the place. */
  readonly api: KubernetesApi;
  readonly clock: Clock;
  readonly log: Log;
  readonly whose: Whose;
  /** The default Python, such as 3.12.4. */
  readonly python: string;
  /** Where agents connect: `host:port`. */
  readonly seatAddresses: readonly string[];
  /** Whether a living service of the installation owns that pod; true if unknown. */
  readonly isHeld: (pod: Held) => boolean;
  /** Which of those seats a service has, or may still take over; absent where takeover is impossible. */
  readonly known?: (seatIds: readonly string[]) => Promise<ReadonlySet<string>>;
};

const SWEEP_MS = 5_000;
/** In each sweep, about pods that take long to set up. */
const MAX_QUESTIONS = 4;
/** For pods that are being removed when the service stops; the next service sweeps the rest. */
const LAST_MS = 5_000;

/** Seats that are pods. They run on while the cluster's API does not answer. */
export class KubernetesPlace implements SeatPlace {
  readonly name = "kubernetes";
  readonly builds = true;
  readonly images: ImageBuilds | null;
  readonly #parts: KubernetesParts;
  readonly #api: KubernetesApi;
  readonly #pods: PodApi;
  readonly #queue: PodQueue;
  readonly #leftovers: Leftovers;
  readonly #stopped = new AbortController();
  /** By pod name. */
  readonly #seats = new Map<string, PodSeat>();
  /** Seats whose pods are gone if the next list lacks them. */
  #listed: readonly PodSeat[] = [];
  #watch: Watch | null = null;
  #sweeper: Timer | null = null;
  #lastSweep: Promise<void> | null = null;
  #isInTrouble = false;
  #hasListed = false;
  #onEmpty: (() => void) | null = null;

  private constructor(parts: KubernetesParts, image: string) {
    const { settings, clock, log } = parts;
    const { signal } = this.#stopped;
    this.#parts = parts;
    this.#api = parts.api;
    const pod = podPartsOf(settings, { ...parts, image });
    const { images } = pod;
    this.images = images && { registry: images.registry, tools: imageTools(images, PYTHON_DIR) };
    this.#pods = new PodApi({
      api: this.#api,
      clock,
      stopped: signal,
      onRefused: ({ message }) => log.warn({ detail: message }, "Kubernetes refuses to remove a pod"),
      pod,
      policies: { ...settings, seatAddresses: parts.seatAddresses },
    });
    this.#queue = new PodQueue(clock, signal);
    this.#leftovers = new Leftovers({
      // A pod with our label that is not among our seats was handed over to another service.
      isHeld: (pod) => pod.nodeId !== parts.whose.nodeId && parts.isHeld(pod),
      known: parts.known ?? (async () => new Set<string>()),
      remove: ({ name, uid }) => this.#pods.remove(name, uid),
    });
  }

  /** Throws if the cluster refuses us. If it does not answer, connecting is retried later. */
  static async open(parts: KubernetesParts): Promise<KubernetesPlace> {
    const { kubernetesImage } = parts.settings;
    if (kubernetesImage === null)
      throw new Error("MILLRACE_ENGINE=kubernetes needs MILLRACE_KUBERNETES_IMAGE, the worker image");
    const place = new KubernetesPlace(parts, kubernetesImage);
    await place.#start();
    return place;
  }

  begin(order: SeatOrder, workload: Workload, events: SeatPlaceEvents): PlacedSeat {
    return this.#open(podName(order.seatId, workload), order, workload, events);
  }

  /** Uses the recorded pod name, which an earlier release may have chosen. */
  adopt({ placeName }: AdoptedSeat, workload: Workload, events: SeatPlaceEvents): PlacedSeat {
    const seat = this.#open(placeName, null, workload, events);
    const pod = this.#leftovers.take(seat.placeName);
    if (pod) seat.see(pod);
    else if (this.#hasListed && !this.#isInTrouble) seat.seeGone();
    return seat;
  }

  #open(name: string, order: SeatOrder | null, workload: Workload, events: SeatPlaceEvents): PodSeat {
    const parts = {
      pods: this.#pods,
      queue: this.#queue,
      now: () => this.#parts.clock.now(),
      onGone: (gone: PodSeat, isWanted: boolean) => this.#forget(gone, isWanted),
      onLeft: (pod: SeenPod) => this.#leftovers.see(pod),
    };
    const seat = new PodSeat(parts, name, order, workload, events);
    this.#seats.set(seat.placeName, seat);
    return seat;
  }

  leaveNothing(): void {
    this.#sweeper?.cancel();
    this.#lastSweep = this.#sweep(true);
  }

  /** Waits until the cluster has accepted pending removals, then disconnects. */
  async close(): Promise<void> {
    this.#sweeper?.cancel();
    const empty = new Promise<void>((resolve) => (this.#onEmpty = resolve));
    if (this.#seats.size === 0) this.#onEmpty?.();
    await withTimeout(LAST_MS, Promise.all([empty, this.#lastSweep]), this.#parts.clock);
    this.#stopped.abort();
    await this.#watch?.stop();
    this.#api.close();
  }

  async #start(): Promise<void> {
    const { log, clock } = this.#parts;
    try {
      await this.#pods.prepare();
    } catch (error) {
      if (error instanceof ApiError && !error.isTransient) {
        this.#api.close();
        const { address, namespace } = this.#api;
        throw new Error(`Kubernetes at ${address}, namespace ${namespace}: ${error.message}`, {
          cause: error,
        });
      }
      log.warn({ detail: describeTrouble(error) }, "starting without Kubernetes; connecting is retried");
    }
    const path = this.#api.pathOf("api/v1", "pods");
    const labelSelector = `${INSTALLATION}=${this.#parts.whose.installationId}`;
    this.#watch = new Watch(
      { api: this.#api, clock, path, labelSelector },
      {
        onListing: () => (this.#listed = [...this.#seats.values()].filter(({ isThere }) => isThere)),
        onList: (objects) => this.#takeAll(objects),
        onChange: (change, object) => this.#take(change, object),
        onTrouble: (error) => this.#tellTrouble(error),
      },
    );
    this.#sweeper = clock.every(SWEEP_MS, () => {
      for (const seat of this.#stuck()) void seat.askWhy();
      void this.#sweep(false);
    });
  }

  async #sweep(isLast: boolean): Promise<void> {
    await this.#leftovers.sweep(isLast).catch((error: unknown) => {
      this.#parts.log.error({ err: error }, "could not look for pods that were left behind");
    });
  }

  /** A few of the stuck seats: the others are mostly stuck for the same reason. */
  #stuck(): readonly PodSeat[] {
    return [...this.#seats.values()].filter(({ isStuck }) => isStuck).slice(0, MAX_QUESTIONS);
  }

  #takeAll(objects: readonly unknown[]): void {
    const pods = objects.flatMap((object) => readPod(object) ?? []);
    const names = new Set(pods.map(({ name }) => name));
    for (const pod of pods) this.#see(pod);
    for (const seat of this.#listed) if (!names.has(seat.placeName)) seat.seeGone();
    this.#leftovers.keepOnly(names);
    this.#hasListed = true;
  }

  #take(change: "ADDED" | "MODIFIED" | "DELETED", object: unknown): void {
    const pod = readPod(object);
    if (pod === null) return;
    if (change === "DELETED") this.#seeGone(pod);
    else this.#see(pod);
  }

  #see(pod: SeenPod): void {
    const seat = this.#seats.get(pod.name);
    if (seat) seat.see(pod);
    else this.#leftovers.see(pod);
  }

  #seeGone({ name }: SeenPod): void {
    this.#leftovers.seeGone(name);
    this.#seats.get(name)?.seeGone();
  }

  #forget(seat: PodSeat, isWanted: boolean): void {
    if (!this.#seats.delete(seat.placeName)) return;
    // The object that owns all pods may have been removed. New pods would be removed with it.
    if (isWanted) this.#pods.forget();
    if (this.#seats.size === 0) this.#onEmpty?.();
  }

  /** Logs once when trouble begins, and once when it ends. */
  #tellTrouble(error: unknown): void {
    const { log } = this.#parts;
    if (error === null && this.#isInTrouble) log.info("the Kubernetes API answers again");
    if (error !== null && !this.#isInTrouble)
      log.warn({ detail: describeTrouble(error) }, "cannot watch the pods; running ones continue");
    this.#isInTrouble = error !== null;
  }
}
