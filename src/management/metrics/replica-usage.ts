import type { LiveApp } from "../../apps/catalog.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";

type Replica = LiveApp["pool"]["replicas"] extends ReadonlySet<infer Each> ? Each : never;
type Reading = {
  /** Monotonic milliseconds. */
  readonly at: number;
  readonly cpuMs: number;
  readonly cores: number;
  readonly bytes: number;
};

/** What the replicas of an app use. */
export type AppUsage = { readonly cores: number; readonly bytes: number };

/** How many apps are asked at a time; each of them is asked about one replica after the other. */
const AT_ONCE = 16;
/** A scrape waits for no more; what is not answered by then has the value of the look before. */
const PATIENCE_MS = 1_000;
/** Over a shorter time a rate would be rough: a scrape soon after another repeats its values. */
const LEAST_MS = 1_000;

/** Asks, at each scrape, what replicas use. One look at a time: an agent that hangs gets no more questions. */
export class ReplicaUsage {
  readonly #clock: Clock;
  readonly #readings = new WeakMap<Replica, Reading>();
  #looking: Promise<void> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when all are known, or it has taken too long. */
  async look(apps: readonly (readonly Replica[])[]): Promise<void> {
    this.#looking ??= this.#lookAt(apps.filter((replicas) => replicas.length > 0)).finally(
      () => (this.#looking = null),
    );
    await withTimeout(PATIENCE_MS, this.#looking, this.#clock);
  }

  /** As of the latest look. */
  of(replicas: Iterable<Replica>): AppUsage {
    let [cores, bytes] = [0, 0];
    for (const replica of replicas) {
      const reading = this.#readings.get(replica);
      cores += reading?.cores ?? 0;
      bytes += reading?.bytes ?? 0;
    }
    return { cores, bytes };
  }

  async #lookAt(apps: (readonly Replica[])[]): Promise<void> {
    const lookOn = async (): Promise<void> => {
      for (let app = apps.pop(); app; app = apps.pop()) for (const replica of app) await this.#read(replica);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lookOn));
  }

  async #read(replica: Replica): Promise<void> {
    const last = this.#readings.get(replica);
    if (last && this.#clock.monotonic() - last.at < LEAST_MS) return;
    const usage = await replica.usage().catch(() => null);
    if (!usage) return;
    const { cpuMs, residentBytes: bytes } = usage;
    const at = this.#clock.monotonic();
    // At first, since its start.
    const spanMs = last ? at - last.at : this.#clock.now() - replica.startedAt;
    const spentMs = Math.max(0, cpuMs - (last?.cpuMs ?? 0));
    this.#readings.set(replica, { at, cpuMs, bytes, cores: spanMs > 0 ? spentMs / spanMs : 0 });
  }
}
