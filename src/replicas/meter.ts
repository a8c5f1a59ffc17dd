import type { Clock, Timer } from "../kit/clock.ts";
import type { HardwareConfig, ScalingConfig } from "../model/app-config.ts";
import type { Usage } from "../engines/engine.ts";

const READINGS_AN_INTERVAL = 10;
/** The shortest gap: measuring a replica takes 0.1 ms of processor time (measured on a busy machine). */
const LEAST_GAP_MS = 1_000;
const GB = 1e9;

/** What a replica may use. */
export type Allowance = Pick<HardwareConfig, "cpu" | "memoryGb">;

type MeterEvents<R> = {
  ready(): readonly R[];
  /** How many calls have arrived so far. */
  arrivals(): number;
  onMeasured(): void;
  onError(error: unknown): void;
};

/** Measures the scaling metric on a timer, not per call; stopped for concurrency, which is always known. */
export class Meter<R extends { usage(): Promise<Usage | null> }> {
  readonly #clock: Clock;
  readonly #allowance: Allowance;
  readonly #events: MeterEvents<R>;
  #metric: ScalingConfig["scalingMetric"];
  #intervalMs: number;
  #arrivals: Window;
  #usage = new WeakMap<R, Window>();
  #timer: Timer | null = null;
  #isLooking = false;

  constructor(scaling: ScalingConfig, allowance: Allowance, clock: Clock, events: MeterEvents<R>) {
    this.#clock = clock;
    this.#allowance = allowance;
    this.#events = events;
    this.#metric = scaling.scalingMetric;
    this.#intervalMs = scaling.evaluationIntervalSeconds * 1000;
    this.#arrivals = new Window(this.#intervalMs);
  }

  /** Changes metric or interval, which discards earlier measurements. */
  setScaling({ scalingMetric, evaluationIntervalSeconds }: ScalingConfig): void {
    const intervalMs = evaluationIntervalSeconds * 1000;
    if (scalingMetric === this.#metric && intervalMs === this.#intervalMs) return;
    this.#metric = scalingMetric;
    this.#intervalMs = intervalMs;
    this.stop();
  }

  /** Starts, if there is anything to measure. */
  start(): void {
    if (this.#timer || this.#metric === "concurrency_utilization") return;
    this.#arrivals.add(this.#clock.monotonic(), this.#events.arrivals());
    const gapMs = Math.max(LEAST_GAP_MS, this.#intervalMs / READINGS_AN_INTERVAL);
    this.#timer = this.#clock.every(gapMs, () => this.#measure());
  }

  /** Stops, and discards all measurements. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#arrivals = new Window(this.#intervalMs);
    this.#usage = new WeakMap();
  }

  get isRunning(): boolean {
    return this.#timer !== null;
  }

  get callsPerSecond(): number {
    return this.#arrivals.growthPerMs * 1000;
  }

  /** What a replica used of its allowance over the interval; 0 if not measured. */
  usedPercent(replica: R): number {
    const window = this.#usage.get(replica);
    if (!window) return 0;
    const share =
      this.#metric === "cpu_utilization"
        ? window.growthPerMs / this.#allowance.cpu
        : window.mean / (this.#allowance.memoryGb * GB);
    return share * 100;
  }

  #measure(): void {
    if (this.#metric === "requests_per_second") {
      this.#arrivals.add(this.#clock.monotonic(), this.#events.arrivals());
      this.#events.onMeasured();
    } else if (!this.#isLooking) {
      this.#isLooking = true;
      this.#lookAtAll()
        .catch((error: unknown) => this.#events.onError(error))
        .finally(() => (this.#isLooking = false));
    }
  }

  /** One after the other, so that they block nothing else. */
  async #lookAtAll(): Promise<void> {
    const usageOf = this.#usage;
    const isCpu = this.#metric === "cpu_utilization";
    for (const replica of this.#events.ready()) {
      const usage = await replica.usage();
      // The meter was stopped or changed meanwhile.
      if (usageOf !== this.#usage) return;
      if (!usage) continue;
      const window = usageOf.get(replica) ?? new Window(this.#intervalMs);
      usageOf.set(replica, window);
      window.add(this.#clock.monotonic(), isCpu ? usage.cpuMs : usage.residentBytes);
    }
    this.#events.onMeasured();
  }
}

type Point = { readonly at: number; readonly value: number };

/** Readings of a number over the latest interval. Times are monotonic milliseconds. */
export class Window {
  readonly #intervalMs: number;
  /** Oldest first; the first may be older than the interval, so that all of it is covered. */
  readonly #points: Point[] = [];

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  add(at: number, value: number): void {
    this.#points.push({ at, value });
    const begin = at - this.#intervalMs;
    while ((this.#points[1]?.at ?? Number.POSITIVE_INFINITY) <= begin) this.#points.shift();
  }

  /** The growth of a counter per millisecond of the interval. Time before the first reading counts as no growth. */
  get growthPerMs(): number {
    const first = this.#points[0];
    const last = this.#points.at(-1);
    if (!first || !last) return 0;
    return Math.max(0, last.value - first.value) / Math.max(this.#intervalMs, last.at - first.at);
  }

  /** The mean of the readings; 0 without any. */
  get mean(): number {
    const sum = this.#points.reduce((total, { value }) => total + value, 0);
    return sum / Math.max(1, this.#points.length);
  }
}
