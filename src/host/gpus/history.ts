import type { Clock, Timer } from "../../kit/clock.ts";
import type { HeldGpu } from "../../model/gpu.ts";
import type { GpuSource } from "./source.ts";

const STEP_MS = 10_000;
/** An hour of them. */
const STEPS = 360;
/** As often as the driver is read anyway, and often enough that no step is left out if a timer is late. */
const LOOK_EVERY_MS = 5_000;

/** The most of a step; null where it is not known. */
type GpuUse = { readonly usedBytes: number | null; readonly utilization: number | null };
type AppUse = { readonly usedBytes: number | null; readonly ownUsedBytes: number | null };

/** The use of each GPU, by UUID, step by step, the oldest first; null for steps without a look at it. */
type Hour<Use> = {
  readonly fromMs: number;
  readonly stepMs: number;
  readonly gpus: ReadonlyMap<string, readonly (Use | null)[]>;
};

type Step = {
  readonly startMs: number;
  /** By UUID. */
  readonly gpus: Map<string, GpuUse>;
  /** The GPUs that replicas of an app had, by the app and by UUID. */
  readonly apps: Map<string, Map<string, AppUse>>;
};

type HistoryParts = {
  readonly source: Pick<GpuSource, "current" | "readings" | "onChange">;
  readonly grants: () => readonly HeldGpu[];
  readonly clock: Clock;
};

/** What was in use of the machine's GPUs in the last hour. It only notes what the driver was asked for anyway. */
export class GpuHistory {
  readonly #parts: HistoryParts;
  readonly #stopListening: () => void;
  #timer: Timer | null = null;
  #steps: readonly Step[] = [];

  constructor(parts: HistoryParts) {
    this.#parts = parts;
    this.#stopListening = parts.source.onChange(() => this.#begin());
    this.#begin();
  }

  /** The GPUs that were there. */
  ofGpus(): Hour<GpuUse> {
    return this.#hour(({ gpus }) => gpus);
  }

  /** The GPUs that replicas of an app had: what was in use of each while they had it, and what of that was their own. */
  ofApp(app: Pick<HeldGpu, "app" | "projectId">): Hour<AppUse> {
    return this.#hour(({ apps }) => apps.get(keyOf(app)));
  }

  close(): void {
    this.#stopListening();
    this.#timer?.cancel();
  }

  /** A machine without GPUs has no timer. */
  #begin(): void {
    if (this.#timer !== null || this.#parts.source.current().gpus.length === 0) return;
    this.#timer = this.#parts.clock.every(LOOK_EVERY_MS, () => void this.#look());
  }

  /** The hour up to this moment, of what a step has by UUID. */
  #hour<Use>(usesOf: (step: Step) => ReadonlyMap<string, Use> | undefined): Hour<Use> {
    const fromMs = this.#look().startMs - (STEPS - 1) * STEP_MS;
    const gpus = new Map<string, (Use | null)[]>();
    for (const step of this.#steps)
      for (const [uuid, use] of usesOf(step) ?? []) {
        const uses = gpus.get(uuid) ?? Array.from({ length: STEPS }, () => null);
        gpus.set(uuid, uses);
        uses[(step.startMs - fromMs) / STEP_MS] = use;
      }
    return { fromMs, stepMs: STEP_MS, gpus };
  }

  #look(): Step {
    const { source, grants, clock } = this.#parts;
    const step = this.#stepAt(clock.now());
    const readings = new Map(source.readings().map((reading) => [reading.uuid, reading]));
    for (const { uuid } of source.current().gpus) {
      const { usedBytes = null, utilization = null } = readings.get(uuid) ?? {};
      const before = step.gpus.get(uuid);
      step.gpus.set(uuid, {
        usedBytes: more(usedBytes, before?.usedBytes),
        utilization: more(utilization, before?.utilization),
      });
    }
    for (const [app, held] of Map.groupBy(grants(), keyOf)) {
      const gpus = step.apps.get(app) ?? new Map<string, AppUse>();
      step.apps.set(app, gpus);
      for (const [uuid, shares] of Map.groupBy(held, ({ gpu }) => gpu)) {
        const before = gpus.get(uuid);
        gpus.set(uuid, {
          usedBytes: more(readings.get(uuid)?.usedBytes ?? null, before?.usedBytes),
          ownUsedBytes: more(sumOf(shares), before?.ownUsedBytes),
        });
      }
    }
    return step;
  }

  /** The step of this moment. The clock may have been set back: what is ahead of it is forgotten. */
  #stepAt(nowMs: number): Step {
    const startMs = nowMs - (nowMs % STEP_MS);
    const kept = this.#steps.filter(
      (step) => step.startMs <= startMs && step.startMs > startMs - STEPS * STEP_MS,
    );
    const last = kept.at(-1);
    const step = last?.startMs === startMs ? last : { startMs, gpus: new Map(), apps: new Map() };
    this.#steps = step === last ? kept : [...kept, step];
    return step;
  }
}

function keyOf({ projectId, app }: Pick<HeldGpu, "app" | "projectId">): string {
  return `${projectId} ${app}`;
}

function more(now: number | null, before: number | null = null): number | null {
  return before !== null && now !== null ? Math.max(before, now) : (now ?? before);
}

/** Null if the use of one is unknown. */
function sumOf(shares: readonly HeldGpu[]): number | null {
  return shares.reduce<number | null>(
    (sum, { usedBytes }) => (sum === null || usedBytes === null ? null : sum + usedBytes),
    0,
  );
}
