import { withoutPlace } from "../../host/gpus/minimums.ts";
import { matches } from "../../host/gpus/source.ts";
import { canServe, onNoNode } from "../../host/gpus/reasons.ts";
import { type Gpus, othersOf, wishHere } from "../../engines/granted-engine.ts";
import type { App } from "../../model/app.ts";
import type { AppConfig } from "../../model/app-config.ts";
import type { GpuKind, GpuWish } from "../../model/gpu.ts";
import { gpuWish } from "../workload.ts";
import type { LiveApp, OpenVersion } from "./open-version.ts";

/** More replicas of one app than a machine holds. */
const MOST_COUNTED = 1_000;

type Named = Pick<App, "projectId" | "name">;
type Minimum = Parameters<Gpus["broker"]["fits"]>[0][number];

function nameOf({ projectId, name }: Named): Named {
  return { projectId, name };
}

/** Whole GPUs are more than any part of them. */
function sizeOf({ wish, replicas }: Minimum): number {
  return replicas * wish.count * (wish.memoryBytes ?? Number.MAX_SAFE_INTEGER);
}

/** A warning of more replicas than fit on the GPUs of one machine; `unplaced` counts those of them that have no place. */
function tooManyReplicas(
  config: AppConfig,
  where: string,
  unplaced: (each: readonly Minimum[]) => number,
): string[] {
  const wish = gpuWish(config);
  if (wish === null) return [];
  const { maxReplicas } = config.scaling;
  const most = Math.min(maxReplicas, MOST_COUNTED);
  const room =
    most - unplaced(Array.from({ length: most }, () => ({ app: "", projectId: "", wish, replicas: 1 })));
  if (room === most) return [];
  const many = room === 1 ? "1 replica" : `${room} replicas`;
  return [`max_replicas = ${maxReplicas}, but the GPUs of ${where} have room for ${many}`];
}

/** Whether the GPUs of this machine suffice for what apps are to keep. On a machine without GPUs everything fits. */
export class GpuRoom {
  readonly #gpus: Gpus | null;
  readonly #isCluster: boolean;
  readonly #live: () => readonly LiveApp[];
  /** Of apps that are being deployed or changed. */
  readonly #kept = new Set<Named & { readonly config: AppConfig }>();

  /** `gpus` grants those of this machine, if that does not belong to a cluster; `live` lists what apps serve. */
  constructor(gpus: Gpus | null, isCluster: boolean, live: () => readonly LiveApp[]) {
    this.#gpus = gpus;
    this.#isCluster = isCluster;
    this.#live = live;
  }

  /** Why no GPU of this machine will ever serve an app; null if one may, or if it runs without. */
  never(config: AppConfig): string | null {
    const wish = this.#gpus && wishHere(gpuWish(config), this.#gpus);
    return wish && this.#gpus.broker.never(wish);
  }

  /** Whether no GPU of this machine will ever serve an app, and those of another node may. */
  isForAnotherNode(config: AppConfig): boolean {
    return this.#places(config).length > 0 && this.never(config) !== null;
  }

  /** What the author of an app should know before it runs. */
  warnings(config: AppConfig): string[] {
    const wish = this.#wish(config);
    const never = this.never(config);
    if (this.#isCluster && gpuWish(config)?.memoryBytes)
      return ["gpu_memory has no effect: a cluster grants whole GPUs"];
    if (never !== null) {
      const places = this.#places(config);
      if (places.length === 0)
        return [`calls will fail with no_gpu_free: ${onNoNode(never, othersOf(this.#gpus))}`];
      const options = { sharesAcrossProjects: false, matches };
      const unplaced = (each: readonly Minimum[]): number =>
        Math.min(...places.map((gpus) => withoutPlace(each, gpus, options).length));
      return [
        `${never}: the app is not checked, and moves to a node that can serve it`,
        ...tooManyReplicas(config, "any node", unplaced),
      ];
    }
    const { broker } = this.#gpus ?? {};
    return wish && broker ? tooManyReplicas(config, "this machine", (each) => broker.fits(each).length) : [];
  }

  /** Why an app cannot keep its `min_replicas` beside those of the others, which are named; null if it can. */
  refusal(app: Named, config: AppConfig): string | null {
    const wish = this.#wish(config);
    const { minReplicas } = config.scaling;
    if (!wish || minReplicas === 0 || this.never(config) !== null) return null;
    const others = this.#minimums(app);
    const own = { app: app.name, projectId: app.projectId, wish, replicas: minReplicas };
    if (!this.#gpus?.broker.fits([...others, own]).includes(own)) return null;
    const known = others.filter(({ projectId }) => projectId === app.projectId);
    const named = known.map((other) => `${other.app} (min_replicas = ${other.replicas})`);
    if (others.length > known.length) named.push("apps of other projects");
    const beside = named.length > 0 ? ` beside those of ${named.join(", ")}` : "";
    return `min_replicas = ${minReplicas} of ${app.name} does not fit on the GPUs of this machine${beside}`;
  }

  /**
   * Counts what an app is to keep as if it served already, until the function that this returns is called. To be called without
   * a pause after `refusal`, else two deploys could both find room for themselves alone.
   */
  keep({ projectId, name }: Named, config: AppConfig): () => void {
    const wish = gpuWish(config);
    const { minReplicas: replicas } = config.scaling;
    if (wish === null || replicas === 0) return () => {};
    const kept = { projectId, name, config };
    this.#kept.add(kept);
    return () => void this.#kept.delete(kept);
  }

  /** Whether a replica of a version has room beside all that the app has now, and beside the minimums of other apps. */
  fitsBeside({ version, live }: OpenVersion, others: readonly OpenVersion[]): boolean {
    const wish = this.#wish(version.config);
    // What can never start gains nothing if others end.
    if (!wish || this.never(version.config) !== null) return true;
    const { projectId, name } = live.app;
    const ofApp = { app: name, projectId };
    const now = others.flatMap((other): Minimum[] => {
      const held = this.#wish(other.version.config);
      return held ? [{ ...ofApp, wish: held, replicas: other.pool.replicas.size }] : [];
    });
    const own = { ...ofApp, wish, replicas: 1 };
    return !this.#gpus?.broker.fits([...this.#minimums(live.app), ...now, own]).includes(own);
  }

  /** Whether its replicas hold GPUs of this machine. */
  hasGpus({ version }: OpenVersion): boolean {
    return this.#wish(version.config) !== null;
  }

  /** The GPUs of each other node that can serve it. */
  #places(config: AppConfig): readonly (readonly GpuKind[])[] {
    const others = config.hardware.gpuCount === 0 ? [] : othersOf(this.#gpus);
    const wish = others.length > 0 ? gpuWish(config) : null;
    return wish ? others.filter((gpus) => canServe(wish, gpus)) : [];
  }

  /** What the other apps are to keep: of an app that is being changed the larger of what it keeps now and then. */
  #minimums(without: Named): Minimum[] {
    const live = this.#live().map(({ app, version: { config } }) => ({ ...nameOf(app), config }));
    const found = [...live, ...this.#kept].flatMap(({ projectId, name, config }): Minimum[] => {
      const wish = this.#wish(config);
      const { minReplicas: replicas } = config.scaling;
      const isOther = projectId !== without.projectId || name !== without.name;
      return wish && isOther && replicas > 0 && this.never(config) === null
        ? [{ app: name, projectId, wish, replicas }]
        : [];
    });
    const byApp = Map.groupBy(found, ({ projectId, app }) => `${projectId} ${app}`);
    return [...byApp.values()].map((ofApp) => ofApp.toSorted((a, b) => sizeOf(b) - sizeOf(a))[0]!);
  }

  #wish(config: AppConfig): GpuWish | null {
    if (this.#gpus === null || this.#gpus.current().gpus.length === 0) return null;
    return wishHere(gpuWish(config), this.#gpus);
  }
}
