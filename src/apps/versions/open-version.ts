import type { App, FunctionSignature, SecretMap, Version } from "../../model/app.ts";
import type { StorageFolders } from "../../host/storage/folders.ts";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Log } from "../../kit/log.ts";
import type { ScalingConfig } from "../../model/app-config.ts";
import type { Engine, InitFailure, Workload } from "../../engines/engine.ts";
import type { FleetCounts } from "../../replicas/fleet-events.ts";
import type { Home } from "../../engines/home.ts";
import type { PrintedLine } from "../../engines/log-lines.ts";
import { Seats } from "../../replicas/seats.ts";
import type { Store } from "../../store/store.ts";
import type { VersionFiles } from "../artifacts/version-files.ts";
import { templateKeepMs, workloadOf } from "../workload.ts";
import type { AppSecrets } from "../secrets.ts";
import { Pool, type PoolEvents, type PoolLogLine, type RunTarget } from "../../replicas/pool.ts";

export type OpenParts = {
  readonly store: Store;
  readonly engine: Engine;
  readonly home: Home;
  readonly clock: Clock;
  readonly dataDir: string;
  readonly storage: Pick<StorageFolders, "make">;
  /** Brings the files of a version that another node has built; null for a service alone. */
  readonly files: Pick<VersionFiles, "ensure"> | null;
  readonly log: Log;
  readonly appSecrets: AppSecrets;
  readonly onLog: (line: AppLogLine) => void;
};

const BROKE_PROTOCOL = "it broke the wire protocol";
/** Long enough that one queued run after the other finds its replica, and no longer. */
const STANDBY_COOLDOWN_SECONDS = 2;

/** A version that can take calls. Before and after it serves it stands by: it gets no new calls, and keeps few replicas. */
export class OpenVersion {
  readonly #parts: OpenParts;
  readonly #seats: Seats;
  readonly pool: Pool;
  /** What callers see; replaced when its settings change. */
  live: LiveApp;
  #isServing = false;
  /** Whether its server has a port that another version of the app could not get. */
  isInTheWay = false;
  /** Its replicas end so that a version that needs their GPUs can start. */
  makesRoom = false;
  /** Monotonic milliseconds, of when it was last given something to do. */
  usedAt: number;

  constructor(app: App, version: Version, counts: FleetCounts, parts: OpenParts) {
    const { engine, home, storage, clock, onLog } = parts;
    this.usedAt = clock.monotonic();
    const where = { projectId: app.projectId, appName: app.name, appNumber: app.number };
    this.#parts = parts;
    storage.make(app.projectId);
    // What a template prints at its import belongs to no replica.
    const ofTemplate = { ...where, replicaId: "template" };
    this.#seats = new Seats(engine, home, this.#workload(app, version), this.#keepMs(version), {
      onLog: (line) => onLog({ ...line, ...ofTemplate }),
      onFault: (fault) => this.#tellKilled(ofTemplate, { fault }),
      onSilence: (silence) => this.#tellKilled(ofTemplate, { silence }),
      onError: (error) => this.#tellError(where, error),
      tenancy: {
        // A version may be open twice, while its replicas are replaced.
        key: `${version.id}/${randomName(6)}`,
        app: app.name,
        minReplicas: () => this.pool.fleet.minReplicas,
        idle: () => this.pool.fleet.idle(),
        evict: (id, forWhom) => this.pool.fleet.evict(id, forWhom),
      },
    });
    const config = { ...version.config, scaling: standbyScaling(version.config.scaling, 0) };
    const events = this.#events(where, version);
    const owner = app.projectId;
    this.pool = new Pool(config, { seats: this.#seats, home, clock, events, counts, owner });
    this.pool.slots.isRetired = true;
    this.live = this.#live(app, version);
  }

  get version(): Version {
    return this.live.version;
  }

  get isBusy(): boolean {
    return this.pool.replicas.size > 0 || this.pool.slots.waiting > 0;
  }

  /** Whether that version could not start beside its replica: the server of this one has a port that it needs. */
  excludes({ config }: Version): boolean {
    const { customRuntime } = this.version.config;
    if (this.isInTheWay || this.makesRoom) return true;
    return this.pool.fleet.isSingle && config.customRuntime?.port === customRuntime?.port;
  }

  /** Takes calls from now on, by these settings. */
  serve(app: App, version: Version): void {
    this.#isServing = true;
    this.pool.slots.isRetired = false;
    this.pool.slots.heir = null;
    this.live = this.#live(app, version);
    this.renew();
    this.relax();
  }

  /** At least so many replicas, whatever its calls need; gives why it has none if it cannot start. */
  async warm(replicas: number, signal: AbortSignal): Promise<InitFailure | null> {
    this.usedAt = this.#parts.clock.monotonic();
    const wanted = Math.min(replicas, this.version.config.scaling.maxReplicas);
    this.#scale(wanted);
    return await this.pool.started(wanted, signal);
  }

  /** No more replicas than its settings and its calls ask for. */
  relax(): void {
    this.#scale(0);
  }

  /** Stands by: replicas finish what they hold and go; calls that still come are served. */
  retire(): void {
    this.#isServing = false;
    this.usedAt = this.#parts.clock.monotonic();
    this.pool.slots.isRetired = true;
    this.renew();
    this.relax();
  }

  /** Later runs are recorded, and later replicas started, with what is true now. */
  renew(): void {
    this.live = this.#live(this.live.app, this.version);
    this.#seats.update(this.#workload(this.live.app, this.version), this.#keepMs(this.version));
  }

  /** Its packages are in another folder now. */
  rebuild({ environment }: Pick<Version, "environment">): void {
    this.live = { ...this.live, version: { ...this.version, environment } };
    this.renew();
  }

  /** Ends its processes; what they still hold is refused, as by a service that stops. */
  async close(): Promise<void> {
    await this.pool.close({ kind: "refused", code: "draining" });
  }

  #scale(atLeast: number): void {
    const { scaling } = this.version.config;
    const minReplicas = Math.max(atLeast, scaling.minReplicas);
    const serving = { ...scaling, minReplicas };
    this.pool.slots.setScaling(this.#isServing ? serving : standbyScaling(scaling, atLeast));
  }

  #live(app: App, version: Version): LiveApp {
    const { pool } = this;
    const { id: versionId, config } = version;
    const secrets = this.#secrets(app);
    // The names that the hosted original reads.
    const input = secrets["DISABLE_REQUEST_LOGS"] === "true";
    const result = secrets["DISABLE_RESPONSE_LOGS"] === "true";
    const { projectId, name: appName, number: appNumber } = app;
    const hidden = { input, result };
    const target = { projectId, appName, appNumber, versionId, slots: pool.slots, config, hidden };
    return { app, version, pool, target };
  }

  #workload(app: App, version: Version): Workload {
    return workloadOf(app, version, this.#secrets(app));
  }

  #secrets({ projectId, number: appNumber }: App): SecretMap {
    return this.#parts.appSecrets.of({ projectId, appNumber });
  }

  /** How long a template is kept without a replica. */
  #keepMs({ config }: Version): number {
    return this.#isServing ? templateKeepMs(config, this.#parts.engine) : 0;
  }

  #events(where: Omit<AppLogLine, keyof PoolLine>, version: Version): PoolEvents {
    const { log, onLog } = this.#parts;
    return {
      onLog: (line) => onLog({ ...line, ...where }),
      onFunctions: (functions) => this.#keepFunctions(version, functions),
      onReplicaGone: (replicaId, exit) => {
        log.debug({ ...where, replicaId, detail: exit.detail }, "replica ended");
        this.#tellKilled({ ...where, replicaId }, exit);
        if (!exit.initFailure) return;
        const { traceback } = exit.initFailure;
        log.warn({ ...where, traceback }, "app failed to start");
        const lines = traceback.trimEnd().split("\n");
        // What a server printed is in its log already; only the sentence below it is ours.
        for (const text of version.config.customRuntime ? lines.slice(-1) : lines)
          onLog({ ...where, replicaId, runId: null, stream: "stderr", text });
      },
      onError: (error) => this.#tellError(where, error),
    };
  }

  /** One line for the operator, one for the app's author, if we have killed the process. */
  #tellKilled(
    where: Omit<AppLogLine, keyof PrintedLine>,
    { fault, silence }: { readonly fault?: string | undefined; readonly silence?: string | undefined },
  ): void {
    const { log, onLog } = this.#parts;
    const tell = (detail: string, why: string, shown: string): void => {
      log.warn({ ...where, detail }, `killed a process of an app: ${why}`);
      const text = `[millrace] this process was killed: ${shown}`;
      onLog({ ...where, runId: null, stream: "stderr", text });
    };
    if (fault !== undefined) tell(fault, BROKE_PROTOCOL, `${BROKE_PROTOCOL}: ${fault}`);
    if (silence !== undefined) tell(silence, "it no longer responded", silence);
  }

  #tellError(where: Omit<AppLogLine, keyof PoolLine>, error: unknown): void {
    this.#parts.log.error({ ...where, err: error }, "killed a process of an app after an internal error");
  }

  #keepFunctions(version: Version, functions: readonly FunctionSignature[]): void {
    if (version.functions) return;
    const { store, log } = this.#parts;
    store.versions
      .setFunctions({ id: version.id, functions })
      .catch((error: unknown) => log.error({ err: error }, "could not store function signatures"));
  }
}

type PoolLine = Parameters<PoolEvents["onLog"]>[0];

/** The scaling of a version that gets no new calls: so many replicas, and those its last calls need. */
function standbyScaling(scaling: ScalingConfig, replicas: number): ScalingConfig {
  return {
    ...scaling,
    minReplicas: replicas,
    cooldownSeconds: Math.min(scaling.cooldownSeconds, STANDBY_COOLDOWN_SECONDS),
    // Neither a buffer nor the rate of earlier calls: both would keep replicas that no call needs.
    scalingBuffer: 0,
    scalingMetric: "concurrency_utilization",
    scalingTarget: 100,
  };
}

/** A version that takes calls of its app, and its replicas. */
export type LiveApp = {
  readonly app: App;
  readonly version: Version;
  readonly pool: Pool;
  readonly target: RunTarget;
};

/** A line an app printed, with where it came from. */
export type AppLogLine = PoolLogLine & {
  readonly projectId: string;
  readonly appName: string;
  readonly appNumber: number;
};
