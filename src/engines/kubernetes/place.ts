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

/** Pods of other services. Those of dead services are removed, unless another service has them or may still take them over. */
class Leftovers {
  readonly pods = new Map<string, SeenPod>();
  readonly #parts: KubernetesParts;
  /** Ends it, unless its name belongs to a newer pod by then. */
  readonly #remove: (pod: SeenPod) => Promise<unknown>;
  readonly #leaving = new Set<string>();

  constructor(parts: KubernetesParts, remove: (pod: SeenPod) => Promise<unknown>) {
    this.#parts = parts;
    this.#remove = remove;
  }

  /** Removes pods without an owner. `isLast`: also those that could still be taken over. */
  async sweep(isLast = false): Promise<void> {
    const { isHeld, known, whose } = this.#parts;
    const lost = [...this.pods.values()].filter((pod) => {
      // A pod of ours that is none of our seats was handed over to another service.
      const hasOwner = pod.nodeId !== whose.nodeId && isHeld(pod);
      return !pod.isLeaving && !this.#leaving.has(pod.uid) && !hasOwner;
    });
    const running = lost.filter(({ end }) => end === null).map(({ seatId }) => seatId);
    const wanted = !isLast && known && running.length > 0 ? await known(running) : new Set<string>();
    // A pod may have been taken over or changed meanwhile: the next sweep decides.
    const unwanted = lost.filter((pod) => !wanted.has(pod.seatId) && this.pods.get(pod.name) === pod);
    const removals = unwanted.map(async (pod) => {
      this.#leaving.add(pod.uid);
      await this.#remove(pod).finally(() => this.#leaving.delete(pod.uid));
    });
    await Promise.all(removals);
  }
}

export type KubernetesParts = {
  readonly settings: Settings;
  /** Closed together with the place. */
  readonly api: KubernetesApi;
  /** The place of seats that build images; absent or null if they are here. Closed together with this one. */
  readonly forImages?: KubernetesPlace | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly whose: Whose;
  /** The default Python, such as 3.12.4. */
  readonly python: string;
  /** Where agents connect: `host:port`. */
  readonly seatAddresses: readonly string[];
  /** Whether a living service of the installation owns that pod; true if unknown. */
  readonly isHeld: (pod: Pick<SeenPod, "nodeId" | "seatId">) => boolean;
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
    this.#leftovers = new Leftovers(parts, ({ name, uid }) => this.#pods.remove(name, uid));
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
    if (workload.buildsImage && this.#parts.forImages)
      return this.#parts.forImages.begin(order, workload, events);
    return this.#open(podName(order.seatId, workload), order, workload, events);
  }

  /** Uses the recorded pod name, which an earlier release may have chosen. */
  adopt({ placeName }: AdoptedSeat, workload: Workload, events: SeatPlaceEvents): PlacedSeat {
    const seat = this.#open(placeName, null, workload, events);
    const pod = this.#leftovers.pods.get(placeName);
    this.#leftovers.pods.delete(placeName);
    if (pod) seat.see(pod);
    else if (this.#hasListed && !this.#isInTrouble) seat.seeGone();
    return seat;
  }

  #open(placeName: string, order: SeatOrder | null, workload: Workload, events: SeatPlaceEvents): PodSeat {
    const seat: PodSeat = new PodSeat({
      placeName,
      order,
      workload,
      events,
      pods: this.#pods,
      queue: this.#queue,
      now: () => this.#parts.clock.now(),
      onGone: (isWanted) => {
        if (!this.#seats.delete(placeName)) return;
        // The object that owns all pods may have been removed. New pods would be removed with it.
        if (isWanted) this.#pods.forget();
        if (this.#seats.size === 0) this.#onEmpty?.();
      },
      onLeft: (pod) => this.#leftovers.pods.set(pod.name, pod),
    });
    this.#seats.set(placeName, seat);
    return seat;
  }

  leaveNothing(): void {
    this.#parts.forImages?.leaveNothing();
    this.#sweeper?.cancel();
    this.#lastSweep = this.#sweep(true);
  }

  /** Waits until the cluster has accepted pending removals, then disconnects. */
  async close(): Promise<void> {
    await Promise.all([this.#parts.forImages?.close(), this.#closeOwn()]);
  }

  async #closeOwn(): Promise<void> {
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
        const where = `Kubernetes at ${this.#api.address}, namespace ${this.#api.namespace}`;
        throw new Error(`${where}: ${error.message}`, { cause: error });
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
        onChange: (change, object) => {
          const pod = readPod(object);
          if (pod && change !== "DELETED") this.#see(pod);
          else if (pod) {
            this.#leftovers.pods.delete(pod.name);
            this.#seats.get(pod.name)?.seeGone();
          }
        },
        onTrouble: (error) => this.#tellTrouble(error),
      },
    );
    this.#sweeper = clock.every(SWEEP_MS, () => {
      // The others are mostly stuck for the same reason.
      const stuck = [...this.#seats.values()].filter(({ isStuck }) => isStuck);
      for (const seat of stuck.slice(0, MAX_QUESTIONS)) void seat.askWhy();
      void this.#sweep(false);
    });
  }

  async #sweep(isLast: boolean): Promise<void> {
    await this.#leftovers.sweep(isLast).catch((error: unknown) => {
      this.#parts.log.error({ err: error }, "could not look for pods that were left behind");
    });
  }

  #takeAll(objects: readonly unknown[]): void {
    const pods = objects.flatMap((object) => readPod(object) ?? []);
    const names = new Set(pods.map(({ name }) => name));
    for (const pod of pods) this.#see(pod);
    for (const seat of this.#listed) if (!names.has(seat.placeName)) seat.seeGone();
    const { pods: others } = this.#leftovers;
    for (const name of others.keys()) if (!names.has(name)) others.delete(name);
    this.#hasListed = true;
  }

  #see(pod: SeenPod): void {
    const seat = this.#seats.get(pod.name);
    if (seat) seat.see(pod);
    else this.#leftovers.pods.set(pod.name, pod);
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
