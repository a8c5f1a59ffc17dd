import type { Clock, Timer } from "../../kit/clock.ts";
import type { FleetCounts } from "../../replicas/fleet-events.ts";
import type { InitFailure } from "../../engines/engine.ts";
import type { GpuRoom } from "./gpu-room.ts";
import type { LiveApp, OpenVersion } from "./open-version.ts";
import type { App, LiveStatus } from "../../model/app.ts";

/** In so many steps of equal size calls move to a new version. */
const STEPS = 5;

/** The open versions of one app, and which of them a call goes to. */
export class Traffic {
  #current: OpenVersion;
  /** The version before, while it still gets its share. */
  #previous: OpenVersion | null = null;
  /** Of every five calls, so many go to the current version. */
  #share = STEPS;
  #turn = 0;
  readonly #clock: Clock;
  #timer: Timer | null = null;
  /** Versions that get no new calls, the latest last. */
  #retired: OpenVersion[] = [];

  constructor(current: OpenVersion, clock: Clock) {
    this.#clock = clock;
    this.#current = current;
  }

  get current(): OpenVersion {
    return this.#current;
  }

  /** The one count of all its versions. */
  get counts(): FleetCounts {
    return this.#current.pool.counts;
  }

  get readyCount(): number {
    return this.#current.pool.readyCount + (this.#previous?.pool.readyCount ?? 0);
  }

  get retired(): readonly OpenVersion[] {
    return this.#retired;
  }

  all(): OpenVersion[] {
    return [this.#current, ...(this.#previous ? [this.#previous] : []), ...this.#retired];
  }

  pick(): LiveApp {
    if (this.#previous === null) return this.#current.live;
    this.#turn += this.#share;
    if (this.#turn < STEPS) return this.#previous.live;
    this.#turn -= STEPS;
    return this.#current.live;
  }

  /** Those beside which that version cannot start. */
  rivalsOf(next: OpenVersion): OpenVersion[] {
    return this.all().filter((other) => other !== next && other.excludes(next.version));
  }

  /** Notes that one of the versions with replicas has the port that `next` needs; false if that was known. */
  contest(next: OpenVersion): boolean {
    const others = this.all().filter((other) => other !== next && !other.isInTheWay && other.isBusy);
    for (const other of others) other.isInTheWay = true;
    return others.length > 0;
  }

  find(versionId: string): OpenVersion | undefined {
    if (this.#current.version.id === versionId) return this.#current;
    if (this.#previous?.version.id === versionId) return this.#previous;
    return this.#retired.findLast(({ version }) => version.id === versionId);
  }

  /** Sends calls to that version: all of them now, or the last of them after `durationMs`. */
  moveTo(next: OpenVersion, durationMs = 0): void {
    const before = this.#current;
    if (this.#previous === next) this.#previous = null;
    this.#endRollout();
    this.forget(next);
    this.#current = next;
    if (durationMs === 0) {
      this.#retire(before);
      return;
    }
    this.#previous = before;
    this.#share = 1;
    this.#turn = 0;
    this.#timer = this.#clock.every(durationMs / (STEPS - 1), () => this.#step());
  }

  /** The same version with other replicas: its share of the calls stays what it is. */
  replaceCurrent(next: OpenVersion): void {
    this.forget(next);
    this.#retire(this.#current);
    this.#current = next;
  }

  addRetired(open: OpenVersion): void {
    this.#retired.push(open);
  }

  forget(open: OpenVersion): void {
    this.#retired = this.#retired.filter((other) => other !== open);
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #step(): void {
    this.#share += 1;
    if (this.#share === STEPS) this.#endRollout();
  }

  #endRollout(): void {
    this.#timer?.cancel();
    const previous = this.#previous;
    this.#previous = null;
    this.#share = STEPS;
    if (previous) this.#retire(previous);
  }

  #retire(open: OpenVersion): void {
    open.retire();
    this.#retired.push(open);
  }
}

/** The traffic of every app that takes calls. */
export class Registry {
  /** By project, then by name: a key made of both would be put together anew for every call. */
  readonly #byName = new Map<string, Map<string, Traffic>>();
  readonly #byNumber = new Map<number, Traffic>();

  find(projectId: string, appName: string): Traffic | undefined {
    return this.#byName.get(projectId)?.get(appName);
  }

  byNumber(appNumber: number): Traffic | undefined {
    return this.#byNumber.get(appNumber);
  }

  /** In no order. */
  all(): IterableIterator<Traffic> {
    return this.#byNumber.values();
  }

  add({ number, projectId, name }: App, traffic: Traffic): void {
    const project = this.#byName.get(projectId) ?? new Map<string, Traffic>();
    this.#byName.set(projectId, project.set(name, traffic));
    this.#byNumber.set(number, traffic);
  }

  remove({ number, projectId, name }: App): Traffic | undefined {
    const traffic = this.#byNumber.get(number);
    this.#byNumber.delete(number);
    const project = this.#byName.get(projectId);
    // A new app may have the name by now.
    if (project && project.get(name) === traffic) project.delete(name);
    return traffic;
  }
}

/**
 * What a version needs and others of its app have: the port in a server's code, or GPUs. Rivals that have it end first, and
 * their calls wait from `clear` to `leave`.
 */
export class Room {
  readonly #next: OpenVersion;
  readonly #traffic: Traffic | undefined;
  readonly #gpuRoom: GpuRoom;
  #rivals: readonly OpenVersion[];
  /** Those whose GPUs are needed. */
  readonly #donors: OpenVersion[] = [];

  constructor(next: OpenVersion, traffic: Traffic | undefined, gpuRoom: GpuRoom) {
    this.#next = next;
    this.#traffic = traffic;
    this.#gpuRoom = gpuRoom;
    this.#rivals = traffic?.rivalsOf(next) ?? [];
    if (!gpuRoom.fitsBeside(next, this.#others())) this.#needGpus();
  }

  /** What others have that it needs; null if it can start beside them. */
  get taken(): "port" | "gpus" | null {
    if (this.#donors.length > 0) return "gpus";
    return this.#rivals.length > 0 ? "port" : null;
  }

  /** Ends what is in the way, after the calls it holds; rejects with the signal's reason. */
  async clear(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#rivals.map(({ pool }) => pool.vacate(signal)));
    signal.throwIfAborted();
  }

  /** It could not start: whether a version of the same app may be what is in the way. If so, `clear` ends it too. */
  widen({ lacksGpu }: Pick<InitFailure, "lacksGpu">): boolean {
    if (lacksGpu) return this.#gpuRoom.never(this.#next.version.config) === null && this.#needGpus();
    if (!this.#traffic?.contest(this.#next)) return false;
    this.#rivals = this.#traffic.rivalsOf(this.#next);
    return true;
  }

  /** What was ended may start again, if it still has calls. */
  leave(): void {
    for (const donor of this.#donors) donor.makesRoom = false;
    for (const { pool } of this.#rivals) pool.fleet.occupy();
  }

  /** False if no other version has GPUs that it could leave. */
  #needGpus(): boolean {
    const donors = this.#others().filter(
      (other) => !other.makesRoom && other.isBusy && this.#gpuRoom.hasGpus(other),
    );
    for (const donor of donors) donor.makesRoom = true;
    this.#donors.push(...donors);
    this.#rivals = this.#traffic?.rivalsOf(this.#next) ?? [];
    return donors.length > 0;
  }

  #others(): OpenVersion[] {
    return this.#traffic?.all().filter((other) => other !== this.#next) ?? [];
  }
}

/** The status of an app with these versions that may have replicas, the current one first; null for none. */
export function liveStatusOf(versions: readonly LiveApp[]): LiveStatus | null {
  const [current] = versions;
  if (!current) return null;
  const replicas = { starting: 0, ready: 0, draining: 0 };
  let [waiting, running, oldestWaitMs] = [0, 0, 0];
  for (const { pool } of versions) {
    waiting += pool.slots.waiting;
    oldestWaitMs = Math.max(oldestWaitMs, pool.slots.oldestWaitMs);
    for (const { state, calls } of pool.replicas) {
      if (state !== "gone") replicas[state] += 1;
      running += calls.size;
    }
  }
  const { app, version, pool } = current;
  return {
    appNumber: app.number,
    version: { number: version.number, buildId: version.id },
    state: stateOf(current),
    replicas,
    waiting,
    running,
    oldestWaitMs,
    // All versions of an app share their counts.
    coldStarts: pool.counts.coldStarts,
  };
}

function stateOf({ pool }: LiveApp): LiveStatus["state"] {
  const states = [...pool.replicas].map(({ state }) => state);
  if (states.includes("ready")) return "ready";
  if (states.includes("starting")) return "notready";
  return pool.fleet.startFailure ? "error" : "cold";
}
