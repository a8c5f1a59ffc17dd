import { totalmem } from "node:os";
import type { Clock, Timer } from "../../kit/clock.ts";
import { ended, type Exit, noStartTimes, type ReplicaStart, type SeatOwner } from "../engine.ts";
import { type Started, type StartTimes, STOPPED } from "../engine.ts";
import { limited } from "../local/limited.ts";
import { deferred, over, type StartedProcess } from "../local/spawn.ts";
import { Template } from "./template.ts";

/** The share of the machine's memory that idle templates may hold. */
const SHARE = 1 / 4;

type Idle = { readonly bytes: number; readonly retire: () => void };

/** The templates of all apps that have no replica. If they exceed their share of memory, the oldest are ended. */
export class IdleTemplates {
  /** By owner, oldest first. */
  readonly #idle = new Map<object, Idle>();
  readonly #maxBytes: number;

  constructor(maxBytes: number = totalmem() * SHARE) {
    this.#maxBytes = maxBytes;
  }

  /** The owner's template is idle and holds so much memory; `retire` ends it. */
  add(owner: object, bytes: number, retire: () => void): void {
    this.#idle.set(owner, { bytes, retire });
    let total = 0;
    for (const idle of this.#idle.values()) total += idle.bytes;
    for (const [oldest, idle] of this.#idle) {
      if (total <= this.#maxBytes) return;
      total -= idle.bytes;
      this.#idle.delete(oldest);
      idle.retire();
    }
  }

  remove(owner: object): void {
    this.#idle.delete(owner);
  }
}

/** A replica whose process does not exist yet: the template is not ready, or has not forked. */
type Waiting = {
  readonly replica: ReplicaStart;
  /** Called again if the first start failed. */
  readonly begin: (started: Started) => void;
  readonly isKilled: () => boolean;
};

/** `onReady` is called when the app was imported, or could not be. */
type LineEvents = Omit<SeatOwner, "onLog" | "onEnded"> & { onReady(): void };

/**
 * A template, the replicas that wait for it and those that it forked.
 *
 * importing → forking → over (kept too long, died, or was found dead when asked to fork); importing → over, when the
 * template may not fork or no replica waits for it any more.
 */
export class TemplateLine {
  readonly template: Template;
  readonly #process: StartedProcess;
  /** Those of its import. */
  readonly #times: StartTimes;
  /** The replica with whose GPUs it imports, and whose process it may become; null without GPUs. */
  readonly #grantee: string | null;
  /** The device files of GPUs that its forks may get. */
  readonly #reachable: ReadonlySet<string>;
  readonly #clock: Clock;
  readonly #idle: IdleTemplates;
  readonly #events: LineEvents;
  #keepMs: number;
  #phase: "importing" | "forking" | "over" = "importing";
  /** It ends with its last replica. */
  #isDetached = false;
  #waiting: Waiting[] = [];
  /** Replicas that the template was asked to fork, while their processes live. */
  readonly #forked = new Map<string, Waiting>();
  #retireTimer: Timer | null = null;
  /** Its replicas are to be replaced. */
  readonly #leaving = Promise.withResolvers<void>();
  /** The device files of its forks are visible to it. */
  #shown = Promise.resolve();

  /** `process` imports the app, with the GPUs of the replica `first` if that has any. It is kept for `keepMs` without a replica, if there is memory for it. */
  constructor(
    process: StartedProcess,
    clock: Clock,
    idle: IdleTemplates,
    keepMs: number,
    events: LineEvents,
    first: Pick<ReplicaStart, "id" | "gpus"> | null = null,
  ) {
    this.#process = process;
    this.#times = process.times?.() ?? noStartTimes();
    this.#grantee = first?.gpus ? first.id : null;
    this.#reachable = new Set([...(first?.gpus?.all ?? []), ...(first?.gpus?.files ?? [])]);
    this.#clock = clock;
    this.#idle = idle;
    this.#keepMs = keepMs;
    this.#events = events;
    // Its pod or machine is about to end.
    void process.leaving?.finally(() => {
      events.onOver();
      this.detach();
    });
    this.template = new Template(process, clock, {
      ...events,
      onReady: (forks) => {
        process.noteImported?.();
        if (forks) this.#times.importedAt = clock.monotonic();
        events.onReady();
        if (forks) this.#startForking();
        else this.#startOrdinary();
      },
      onIdle: () => this.#keep(),
      onDead: (why, unborn) => this.#leaveBehind(why, unborn),
      onLost: () => this.#finish(),
      onGone: (exit) => {
        events.onReady();
        this.#finish();
        for (const { begin } of this.#take()) begin(over(exit));
      },
    });
  }

  start(replica: ReplicaStart): Started {
    // The template has ended while the replica waited for its GPUs.
    if (this.#phase === "over") return this.#events.elsewhere(replica);
    this.#retireTimer?.cancel();
    this.#idle.remove(this);
    const { started, waiting } = this.#prepare(replica);
    if (this.#phase === "forking") this.#prepareFork(waiting);
    else this.#waiting.push(waiting);
    return started;
  }

  keepFor(keepMs: number): void {
    this.#keepMs = keepMs;
    if (this.#phase === "forking" && this.#isIdle) this.#keep();
  }

  detach(): void {
    this.#isDetached = true;
    if (this.#phase === "forking") this.#retire();
  }

  stop(): void {
    this.#retireTimer?.cancel();
  }

  #prepare(replica: ReplicaStart): { started: Started; waiting: Waiting } {
    let begun: Started | null = null;
    /** Of every start: a dead template may still fork a replica whose start was repeated elsewhere. */
    const ends: Promise<void>[] = [];
    let isKilled = false;
    const { promise: exited, resolve } = Promise.withResolvers<Exit>();
    const { promise: leaving, resolve: leave } = Promise.withResolvers<void>();
    void this.#process.leaving?.then(leave);
    const waiting: Waiting = {
      replica,
      begin: (started) => {
        begun = started;
        void (started.leaving ?? this.#leaving.promise).then(() => begun === started && leave());
        if (started.gone) ends.push(started.gone);
        // If the start was repeated, only the last process counts.
        void started.exited.then((exit) => begun === started && resolve(exit));
      },
      isKilled: () => isKilled,
    };
    let wasForking = false;
    const giveUp = (): void => {
      if (!this.#remove(waiting)) return;
      // Its GPUs may be visible already.
      wasForking = this.#phase !== "importing" && replica.gpus !== undefined;
      resolve(STOPPED);
      if (this.#phase === "forking") return this.#rest();
      // No replica waits for the import any more, or the import may use GPUs that another replica is given next.
      if (this.#waiting.length > 0 && replica.id !== this.#grantee) return;
      this.#end();
      for (const other of this.#take()) other.begin(this.#events.elsewhere(other.replica));
    };
    const kill = (): void => {
      isKilled = true;
      if (begun) begun.kill();
      else giveUp();
    };
    const obstacle = () => (begun ?? this.#process).obstacle?.() ?? null;
    const endOfProcesses = async (): Promise<void> => {
      await exited;
      if (begun) await Promise.all(ends);
      else if (wasForking) await this.#hidden();
      else if (replica.id === this.#grantee) await this.#process.exited;
    };
    const gone = endOfProcesses();
    const started = deferred(() => begun, { exited, kill, leaving });
    const times = () => begun?.times?.() ?? this.#times;
    return { started: { ...started, obstacle, gone, times }, waiting };
  }

  #startForking(): void {
    // One that is being ended may still say that it is ready.
    if (this.#phase === "importing") this.#phase = "forking";
    for (const waiting of this.#take()) this.#prepareFork(waiting);
  }

  /** A fork can open the device files of its GPUs only after they are visible to the template. */
  #prepareFork(waiting: Waiting): void {
    const { gpus } = waiting.replica;
    if (this.#phase === "over") return waiting.begin(this.#events.elsewhere(waiting.replica));
    if (gpus && !gpus.files.every((file) => this.#reachable.has(file))) {
      // They were found after the import: another template is told of them.
      this.#events.onOver();
      waiting.begin(this.#events.elsewhere(waiting.replica));
      this.#isDetached = true;
      return this.#rest();
    }
    if (!gpus || !this.#process.showGpus) return this.#fork(waiting);
    this.#waiting.push(waiting);
    void this.#forkWhenShown(waiting);
  }

  async #forkWhenShown(waiting: Waiting): Promise<void> {
    try {
      await this.#showGpus();
    } catch (error) {
      // It may be visible although the change has failed.
      if (this.#remove(waiting))
        waiting.begin({ ...over(ended((error as Error).message)), gone: this.#hidden() });
      // Another template may be told of other GPUs.
      this.#events.onOver();
      this.detach();
      return;
    }
    if (!this.#remove(waiting)) return;
    if (this.#phase === "forking") this.#fork(waiting);
    else waiting.begin(this.#events.elsewhere(waiting.replica));
  }

  /** Shows the device files of those forks that there are when its turn has come, one change after the other. */
  #showGpus(): Promise<void> {
    const show = async (): Promise<void> => {
      const users = [...this.#forked.values(), ...this.#waiting];
      const files = new Set(users.flatMap(({ replica }) => replica.gpus?.files ?? []));
      await this.#process.showGpus?.([...files]);
    };
    const shown = this.#shown.then(show);
    this.#shown = shown.catch(() => {});
    return shown;
  }

  #fork(waiting: Waiting): void {
    const { replica, begin } = waiting;
    this.#forked.set(replica.id, waiting);
    const held = this.#process.holdFork?.(replica.ticket) ?? null;
    const { gpus = null } = replica;
    const child = this.template.fork(replica, gpus && { files: gpus.files, variables: gpus.variables });
    const exited = child.exited.then(async (exit) => (await this.#process.explain?.(exit)) ?? exit);
    const forked = held ? limited({ ...child, exited }, held) : { ...child, exited };
    void forked.exited.then(() => this.#forked.delete(replica.id));
    begin(gpus ? { ...forked, gone: this.#goneAndHidden(forked) } : forked);
  }

  async #goneAndHidden({ exited, gone }: Started): Promise<void> {
    await exited;
    await gone;
    await this.#hidden();
  }

  /**
   * A template keeps no GPU: one is given back only when the template cannot open it any more. If that fails, its other replicas
   * are replaced, so that it ends and the GPU is not lost for as long as they live.
   */
  async #hidden(): Promise<void> {
    try {
      await this.#showGpus();
    } catch (error) {
      this.#events.onError(error);
      this.#events.onOver();
      this.#leaving.resolve();
      this.detach();
      await this.#process.exited;
    }
  }

  /** The template is dead: replicas it has not forked start in another seat, the others continue. */
  #leaveBehind(why: string, unborn: readonly string[]): void {
    this.#events.onSilence(why);
    this.#finish();
    for (const { replica, begin, isKilled } of unborn.flatMap((id) => this.#forked.get(id) ?? []))
      if (!isKilled()) begin(this.#events.elsewhere(replica));
  }

  /** The template's process becomes the first replica; the others start in seats of their own. */
  #startOrdinary(): void {
    this.#events.onSingle();
    this.#finish();
    const [first, ...others] = this.#take();
    first?.begin(this.#process);
    for (const { replica, begin } of others) begin(this.#events.elsewhere(replica));
  }

  /** It has no replica, and forks none soon. */
  get #isIdle(): boolean {
    return !this.template.hasChildren && this.#waiting.length === 0;
  }

  #keep(): void {
    this.#retireTimer?.cancel();
    if (this.#isDetached) this.#retire();
    else {
      this.#retireTimer = this.#clock.after(this.#keepMs, () => this.#retire());
      void this.#measure();
    }
  }

  async #measure(): Promise<void> {
    const bytes = await this.#process.residentBytes();
    if (this.#phase === "forking" && this.#isIdle) this.#idle.add(this, bytes, () => this.#retire());
  }

  #retire(): void {
    if (this.#isIdle) this.#end();
  }

  /** A replica that it was about to fork is not wanted any more. */
  #rest(): void {
    if (this.#isIdle) this.#keep();
  }

  #end(): void {
    if (this.#phase === "over") return;
    this.#finish();
    void this.template.close();
  }

  #finish(): void {
    this.#phase = "over";
    this.#idle.remove(this);
    this.#retireTimer?.cancel();
    this.#events.onOver();
  }

  /** Whether it was still waiting. */
  #remove(waiting: Waiting): boolean {
    const isWaiting = this.#waiting.includes(waiting);
    this.#waiting = this.#waiting.filter((other) => other !== waiting);
    return isWaiting;
  }

  #take(): Waiting[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }
}
