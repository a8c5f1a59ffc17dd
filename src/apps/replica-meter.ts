import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { isGpu } from "../model/app-config.ts";
import { isInDoubt } from "../model/errors.ts";
import type { Store } from "../store/store.ts";
import { dayOf } from "../store/usage/roll-up.ts";
import type { Catalog, LiveApp } from "./catalog.ts";

type Replica = LiveApp["pool"]["replicas"] extends ReadonlySet<infer Each> ? Each : never;

/** Monotonic milliseconds, and the processor time until then. */
type Reading = { readonly at: number; readonly cpuMs: number; readonly bytes: number };

type Use = { appNumber: number; day: number; replicaMs: number; cpuMs: number; gpuMs: number; gbMs: number };

type MeterParts = {
  readonly store: Pick<Store, "replicaUsage">;
  readonly clock: Clock;
  readonly log: Log;
  readonly catalog: Pick<Catalog, "all" | "versions">;
  /** How many GPUs a replica on this machine holds; null: as many as its app asks for. */
  readonly gpusOf: (replicaId: string) => number | null;
};

const LOOK_MS = 15_000;
/** Looks between writes: a service that is killed loses what it has measured since the last one. */
const LOOKS_PER_WRITE = 4;
/** How many replicas are asked at a time. */
const AT_ONCE = 16;
const GB = 1e9;

/**
 * Measures what the replicas of each app use, whether or not they have calls: how long they exist, their processor time,
 * memory and GPUs. What one uses after its last look is not known.
 */
export class ReplicaMeter {
  readonly #parts: MeterParts;
  readonly #readings = new WeakMap<Replica, Reading>();
  /** What is not stored yet, by app and day. */
  #uses = new Map<string, Use>();
  readonly #timer: Timer;
  #looks = 0;
  #isWorking = false;
  #writing: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(parts: MeterParts) {
    this.#parts = parts;
    this.#timer = parts.clock.every(LOOK_MS, () => {
      // One look at a time: an agent that hangs gets no more questions.
      if (this.#isWorking) return;
      this.#isWorking = true;
      void this.#work().finally(() => (this.#isWorking = false));
    });
  }

  /** Does not wait for replicas that do not answer. */
  async stop(): Promise<void> {
    this.#timer.cancel();
    this.#isStopped = true;
    await this.#writing;
    await this.#write();
  }

  async #work(): Promise<void> {
    await this.look();
    this.#looks += 1;
    if (this.#isStopped || this.#looks % LOOKS_PER_WRITE > 0) return;
    this.#writing = this.#write();
    await this.#writing;
  }

  /** Adds what all replicas have used since the look before. */
  async look(): Promise<void> {
    const { catalog } = this.#parts;
    const waiting = catalog
      .all()
      .flatMap(({ app }) => catalog.versions(app.number))
      .flatMap((live) => Array.from(live.pool.replicas, (replica) => ({ live, replica })));
    const lookOn = async (): Promise<void> => {
      for (let next = waiting.pop(); next; next = waiting.pop()) await this.#look(next.live, next.replica);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lookOn));
  }

  async #look({ app, version }: LiveApp, replica: Replica): Promise<void> {
    const { clock, gpusOf } = this.#parts;
    const last = this.#readings.get(replica);
    const usage = await replica.usage().catch(() => null);
    if (this.#isStopped) return;
    const at = clock.monotonic();
    const { cpuMs = last?.cpuMs ?? 0, residentBytes: bytes = last?.bytes ?? 0 } = usage ?? {};
    this.#readings.set(replica, { at, cpuMs, bytes });
    // At first, since its start.
    const spanMs = Math.max(0, last ? at - last.at : clock.now() - replica.startedAt);
    const { gpuCount, compute } = version.config.hardware;
    const gpus = gpuCount > 0 && compute.some(isGpu) ? (gpusOf(replica.id) ?? gpuCount) : 0;
    const use = this.#useOf(app.number, dayOf(clock.now()));
    use.replicaMs += spanMs;
    use.cpuMs += Math.max(0, cpuMs - (last?.cpuMs ?? 0));
    use.gpuMs += spanMs * gpus;
    use.gbMs += (spanMs * bytes) / GB;
  }

  #useOf(appNumber: number, day: number): Use {
    const key = `${appNumber} ${day}`;
    const known = this.#uses.get(key);
    if (known) return known;
    const use = { appNumber, day, replicaMs: 0, cpuMs: 0, gpuMs: 0, gbMs: 0 };
    this.#uses.set(key, use);
    return use;
  }

  async #write(): Promise<void> {
    const { store, log } = this.#parts;
    const uses = [...this.#uses.values()];
    if (uses.length === 0) return;
    this.#uses = new Map();
    try {
      await store.replicaUsage.add(uses);
    } catch (error) {
      // What may be stored already is not added again.
      if (isInDoubt(error)) return log.warn({ err: error }, "may have lost a minute of replicas' usage");
      log.debug({ err: error }, "could not store what replicas use; trying again later");
      for (const { appNumber, day, ...sums } of uses) {
        const use = this.#useOf(appNumber, day);
        use.replicaMs += sums.replicaMs;
        use.cpuMs += sums.cpuMs;
        use.gpuMs += sums.gpuMs;
        use.gbMs += sums.gbMs;
      }
    }
  }
}
