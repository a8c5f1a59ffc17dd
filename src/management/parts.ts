import type { Catalog } from "../apps/catalog.ts";
import type { Deployer } from "../apps/deploys/deployer.ts";
import type { LogBook } from "../apps/logs/log-book.ts";
import type { BaseImages } from "../apps/once/base-images.ts";
import type { Secrets } from "../apps/secrets.ts";
import type { Volumes } from "../apps/volumes/volumes.ts";
import type { GpuHistory } from "../host/gpus/history.ts";
import type { GpuSource } from "../host/gpus/source.ts";
import type { Enforcement } from "../host/limits/limits.ts";
import type { networkReport } from "../host/walls/network.ts";
import type { Isolated } from "../host/walls/require-walls.ts";
import type { StandingWalls } from "../host/walls/walls.ts";
import type { identityParts } from "../identity/identity-parts.ts";
import type { KeyRing } from "../identity/key-ring.ts";
import type { Tokens } from "../identity/tokens.ts";
import type { Clock } from "../kit/clock.ts";
import type { DiskReserve } from "../kit/disk-reserve.ts";
import type { ExecutableCheck } from "../kit/files.ts";
import type { SpanCounts } from "../kit/histograms.ts";
import type { Tracer } from "../runs/traces/tracer.ts";
import type { DeliveryState } from "../model/delivery.ts";
import type { LiveStatus } from "../model/app.ts";
import type { GpuEviction, HeldGpu } from "../model/gpu.ts";
import type { NodeDetails } from "../model/node.ts";
import type { OtherNodesGpus } from "../nodes/join-nodes.ts";
import type { Owners } from "../nodes/owners.ts";
import type { AccountWeights } from "../runs/account-weights.ts";
import type { ProjectQuotas } from "../runs/quotas/project-quotas.ts";
import type { QueueStates } from "../runs/queue-states.ts";
import type { BulkWorker } from "../runs/bulk/bulk-worker.ts";
import type { QueueHistory } from "../runs/queue/history.ts";
import type { RunLookup } from "../runs/lookup.ts";
import type { Scheduler } from "../runs/schedules/scheduler.ts";
import type { FileRuns } from "../runs/files/file-runs.ts";
import type { RunTally } from "../runs/run-tally.ts";
import type { SigningSecrets } from "../runs/webhooks/signing-secrets.ts";
import type { Store } from "../store/store.ts";

export type OwnNode = {
  readonly id: string;
  /** Null for a service that is alone. */
  readonly url: string | null;
  readonly details: Omit<NodeDetails, "runs">;
  /** How many apps it owns, and how many runs their replicas execute. */
  readonly apps: number;
  readonly runs: number;
};

/** The GPUs of this service's machine, who holds them, and those of the other nodes. */
export type InstalledGpus = {
  readonly source: Pick<GpuSource, "current" | "readings">;
  readonly grants: () => readonly HeldGpu[];
  readonly evictions: () => readonly GpuEviction[];
  readonly history: Pick<GpuHistory, "ofGpus" | "ofApp">;
  readonly ofOthers: (withHistory: boolean) => Promise<readonly OtherNodesGpus[]>;
};

/** What the management API shows and changes. */
export type ManagementParts = ReturnType<typeof identityParts> & {
  readonly store: Store;
  readonly tokens: Tokens;
  readonly keys: KeyRing;
  readonly clock: Clock;
  /** The clock of deliveries. */
  readonly steadyClock: Clock;
  readonly build: { readonly version: string; readonly python: string };
  /** The default project, whose audit log has the operator's changes. */
  readonly projectId: string;
  readonly dataDir: string;
  readonly publicApiUrl: string | null;
  readonly publicBaseUrl: string | null;
  readonly apiPort: () => number;
  /** The domain of app hosts; null if the setting is unset. */
  readonly appHosts: string | null;
  /** The folders of the built dashboard and guide; by default beside the code. */
  readonly webDir?: string;
  readonly guideDir?: string;
  readonly catalog: Catalog;
  readonly deployer: Deployer;
  readonly logBook: LogBook;
  readonly secrets: Secrets;
  readonly volumes: Volumes;
  readonly baseImages: BaseImages;
  readonly fileRuns: FileRuns;
  readonly queueStates: Pick<QueueStates, "apply" | "stateOf">;
  readonly accountWeights: Pick<AccountWeights, "learn">;
  readonly projectQuotas: Pick<ProjectQuotas, "learn">;
  readonly scheduler: Pick<Scheduler, "wake" | "fireNow">;
  readonly queueHistory: Pick<QueueHistory, "of">;
  readonly bulkWorker: Pick<BulkWorker, "wake">;
  readonly lookup: Pick<RunLookup, "record" | "liveAppOf">;
  readonly signingSecrets: SigningSecrets;
  /** Wakes the deliverer because a delivery is due. */
  readonly wake: () => void;
  /** The status of a project's apps on all nodes, by the app's number; without those of nodes that do not answer. */
  readonly liveStatuses: (projectId: string) => Promise<ReadonlyMap<number, LiveStatus>>;
  readonly ownNode: () => OwnNode;
  readonly gpus: InstalledGpus;
  /** Null for a service that does not share its database. */
  readonly owners: Pick<Owners, "isSure"> | null;
  readonly reserve: Pick<DiskReserve, "isLow" | "isFull" | "shortage" | "space">;
  readonly interpreter: Pick<ExecutableCheck, "path" | "isMissing">;
  readonly isolated: Isolated;
  /** The weakest walls that a remote seat has raised around an app; null if there is none. */
  readonly seatWalls: () => StandingWalls | null;
  /** How each limit of an app is enforced. */
  readonly enforcement: Enforcement;
  /** How much of an app's `network` setting is enforced. */
  readonly network: ReturnType<typeof networkReport>;
  readonly journal: { readonly waiting: number; readonly lost: number };
  /** The runs that have ended here. */
  readonly tally: RunTally;
  readonly deliverer: { readonly attempts: Readonly<Record<DeliveryState, number>> };
  /** What became of spans; null counts if none are recorded. */
  readonly tracer: Pick<Tracer, "counts">;
  /** How long remote seats took to reach each phase of their start. */
  readonly seatStarts: ReadonlyMap<string, SpanCounts>;
};
