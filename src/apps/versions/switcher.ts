import { AppError } from "../../model/errors.ts";
import type { App, ScalingOverrides, Version } from "../../model/app.ts";
import { planSchedules } from "../../model/schedule-times.ts";
import { newFleetCounts } from "../../replicas/fleet-events.ts";
import type { Candidate } from "./candidate.ts";
import type { AppHolder } from "../../store/nodes/app-owners.ts";
import type { GpuRoom } from "./gpu-room.ts";
import { type LiveApp, type OpenParts, OpenVersion } from "./open-version.ts";
import { type Registry, Room, Traffic } from "./traffic.ts";
import type { Turns } from "../../kit/concurrency.ts";

/** How long a switch waits for as many replicas as served before; the first of them is waited for longer. */
const WARM_MS = 5_000;

export type SwitcherParts = OpenParts & {
  /** Says whether this service may change an app; null if it is the only service. */
  readonly holderOf: (appNumber: number) => AppHolder | null;
  readonly registry: Registry;
  readonly gpuRoom: GpuRoom;
  /** Of changes to one app: each change of what it serves takes one. */
  readonly turns: Turns<number>;
};

/** Changes what an app serves, without a call that fails for it. */
export class Switcher {
  readonly #parts: SwitcherParts;

  constructor(parts: SwitcherParts) {
    this.#parts = parts;
  }

  /** Has the stored current version serve, by a stand-in if one is ready. */
  async restore(app: App, version: Version, standIn: () => OpenVersion | null = () => null): Promise<void> {
    await this.#parts.appSecrets.load({ projectId: app.projectId, appNumber: app.number });
    this.#serve(standIn() ?? new OpenVersion(app, version, newFleetCounts(), this.#parts), app, version);
  }

  /** Stores a candidate as what its app serves, then moves the calls to it. */
  async activate(app: App, candidate: Candidate): Promise<LiveApp> {
    const { registry, turns } = this.#parts;
    return await turns.take(app.number, async () => {
      const open = await candidate.opened();
      const traffic = registry.byNumber(app.number);
      // One that was not tried may need long to start; its callers wait for that, as at any cold start.
      if (traffic && open.pool.readyCount > 0) await this.#warm(open, traffic);
      const { config } = candidate.version;
      const served = await this.#store(app, candidate.version);
      candidate.settle();
      const functions = open.pool.functions && [...open.pool.functions.values()];
      const version = { ...candidate.version, functions: functions ?? candidate.version.functions };
      return this.#serve(open, served, version, config.scaling.rollOutDurationSeconds * 1000);
    });
  }

  /** Has an earlier version serve again, at once when it is ready. */
  async rollBack(app: App, versionId: string): Promise<LiveApp> {
    return await this.#parts.turns.take(app.number, async () => {
      const traffic = this.#traffic(app);
      if (traffic.current.version.id === versionId) return traffic.current.live;
      const open = traffic.find(versionId) ?? (await this.#reopen(app, versionId, traffic));
      return await this.#inRoomOf(open, traffic, async (room) => {
        await this.#start(open, traffic, room);
        return this.#serve(open, await this.#store(app, open.version), open.version);
      });
    });
  }

  /** Changes scaling in place; other replicas only where theirs take another number of calls at once. */
  async changeScaling({ number }: App, changes: ScalingOverrides): Promise<LiveApp> {
    return await this.#parts.turns.take(number, async () => {
      const traffic = this.#traffic({ number });
      const { current } = traffic;
      const { version } = current;
      const scaling = { ...version.config.scaling, ...changes };
      const overrides = { ...version.overrides, ...changes };
      const next = { ...version, overrides, config: { ...version.config, scaling } };
      if (scaling.replicaConcurrency !== version.config.scaling.replicaConcurrency)
        return await this.#replace(traffic, next, () => this.#override(version, overrides));
      await this.#override(version, overrides);
      current.serve(current.live.app, next);
      return current.live;
    });
  }

  /** Replaces the app's replicas; calls move once new ones are ready. Throws if they do not start: the old ones continue. */
  async restart({ number }: App): Promise<LiveApp> {
    return await this.#parts.turns.take(number, async () => {
      const traffic = this.#traffic({ number });
      return await this.#replace(traffic, traffic.current.version, async () => {});
    });
  }

  /** Has other replicas serve the current version, by these settings, which `store` stores before calls move. */
  async #replace(traffic: Traffic, next: Version, store: () => Promise<void>): Promise<LiveApp> {
    const { current } = traffic;
    const { app } = current.live;
    const isWarm = current.pool.readyCount > 0;
    const open = this.#open(app, next, traffic);
    return await this.#inRoomOf(open, traffic, async (room) => {
      try {
        if (isWarm) await this.#start(open, traffic, room);
        await store();
      } catch (error) {
        // Its settings were not taken: no run of that version may come to it.
        traffic.forget(open);
        await open.close();
        throw error;
      }
      open.serve(app, next);
      inherit(open, traffic);
      traffic.replaceCurrent(open);
      return open.live;
    });
  }

  /** Does that while nothing is in the way of a version that is to start. */
  async #inRoomOf(open: OpenVersion, traffic: Traffic, act: (room: Room) => Promise<LiveApp>) {
    const room = new Room(open, traffic, this.#parts.gpuRoom);
    try {
      // The calls under way have their own time limit.
      await room.clear(new AbortController().signal);
      return await act(room);
    } finally {
      room.leave();
    }
  }

  #traffic({ number }: Pick<App, "number">): Traffic {
    const traffic = this.#parts.registry.byNumber(number);
    if (!traffic) throw new AppError("app_not_found");
    return traffic;
  }

  /** Stands by among those of its app, so that it ends with them. */
  #open(app: App, version: Version, traffic: Traffic): OpenVersion {
    const open = new OpenVersion(app, version, traffic.counts, this.#parts);
    traffic.addRetired(open);
    return open;
  }

  async #reopen(app: App, versionId: string, traffic: Traffic): Promise<OpenVersion> {
    const version = await this.#parts.store.versions.find(versionId);
    if (version?.appNumber !== app.number) throw new AppError("build_not_found");
    await this.#parts.files?.ensure(version);
    return this.#open(app, version, traffic);
  }

  async #override({ id, appNumber }: Version, overrides: ScalingOverrides): Promise<void> {
    const { store, holderOf } = this.#parts;
    await store.versions.setOverrides({ id, overrides, held: { appNumber, holder: holderOf(appNumber) } });
  }

  /** The version is what the app serves, from now on and after a restart. */
  async #store(app: App, { id: versionId, config }: Version): Promise<App> {
    const { store, clock, holderOf } = this.#parts;
    const now = clock.now();
    const { number: appNumber } = app;
    const schedules = planSchedules(config.schedules ?? [], appNumber, now);
    const current = { appNumber, versionId, schedules, now, holder: holderOf(appNumber) };
    if (!(await store.apps.setCurrentVersion(current))) throw new AppError("app_not_found");
    return { ...app, currentVersionId: versionId, updatedAt: now };
  }

  #serve(open: OpenVersion, app: App, version: Version, durationMs = 0): LiveApp {
    const { registry, log } = this.#parts;
    if (version.config.deployment.disableAuth) {
      const where = { projectId: app.projectId, appName: app.name };
      log.warn(where, "APP WITHOUT AUTHENTICATION: anyone who can reach the listener can call it");
    }
    open.serve(app, version);
    const traffic = registry.byNumber(app.number);
    if (traffic) traffic.moveTo(open, inherit(open, traffic) ? 0 : durationMs);
    else registry.add(app, new Traffic(open, this.#parts.clock));
    return open.live;
  }

  /** Starts it, and as many replicas as serve now; throws why it cannot start. */
  async #start(open: OpenVersion, traffic: Traffic, room: Room): Promise<void> {
    // It starts on the node that has its GPUs, to which the app moves then.
    if (this.#parts.gpuRoom.isForAnotherNode(open.version.config)) return;
    // Its own time limit ends this.
    const { signal } = new AbortController();
    let failure = await open.warm(1, signal);
    const isInTheWay = failure?.portInUse !== undefined || failure?.lacksGpu;
    if (failure && isInTheWay && room.widen(failure)) {
      await room.clear(signal);
      open.pool.fleet.noteHealth();
      failure = await open.warm(1, signal);
    }
    if (!failure) return await this.#warm(open, traffic);
    open.relax();
    const { message } = failure;
    throw new AppError("app_not_ready", { message, headers: { "retry-after": "1" } });
  }

  async #warm(open: OpenVersion, traffic: Traffic): Promise<void> {
    await open.warm(Math.max(1, traffic.readyCount), AbortSignal.timeout(WARM_MS));
  }
}

/** Calls that wait for versions beside which it cannot run move to it; gives whether there are such versions. */
function inherit(open: OpenVersion, traffic: Traffic): boolean {
  const rivals = traffic.rivalsOf(open);
  for (const { pool } of rivals) pool.slots.heir = open.pool.slots;
  return rivals.length > 0;
}
