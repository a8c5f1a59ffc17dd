import type { ScheduleConfig } from "./schedule.ts";

/** An app's configuration with all defaults filled in. Times are seconds, sizes bytes. */
export type AppConfig = {
  readonly deployment: DeploymentConfig;
  readonly hardware: HardwareConfig;
  readonly named: NamedValues;
  readonly scaling: ScalingConfig;
  readonly limits: LimitsConfig;
  readonly dependencies: DependenciesConfig;
  /** By function; absent if the app has none, and from versions of before the table. */
  readonly batching?: Readonly<Record<string, BatchingConfig>>;
  /** Absent if the app has no such table, and from versions of before it. */
  readonly retry?: RetryConfig;
  /** Absent if the app has no such table, and from versions of before it. */
  readonly queue?: QueueConfig;
  /** Absent if the app has none, and from versions of before them. */
  readonly schedules?: readonly ScheduleConfig[];
  /** For a server app; null for one with functions. */
  readonly customRuntime: CustomRuntimeConfig | null;
  /** The image that was built for this version, for clusters; it is in no configuration file. */
  readonly built?: BuiltImage;
};

/** An image that a build has pushed. */
export type BuiltImage = {
  /** By its digest. */
  readonly reference: string;
  /** Its `WORKDIR`, `ENV`, and `ENTRYPOINT` with `CMD`; null if Millrace wrote the Dockerfile. */
  readonly start: {
    readonly folder: string;
    readonly variables: Readonly<Record<string, string>>;
    readonly command: readonly string[];
  } | null;
};

/** Whether an app may use the network; with `egress`, only addresses outside of this one. */
export type Network = boolean | "egress";

export type DeploymentConfig = {
  /** Null for the folder's name. */
  readonly name: string | null;
  /** Null for the service's own. */
  readonly pythonVersion: string | null;
  /** A newer one is not accepted. */
  readonly pythonVersionStrict: boolean;
  readonly disableAuth: boolean;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly shellCommands: readonly string[];
  readonly preBuildCommands: readonly string[];
  readonly dockerBaseImageUrl: string | null;
  /** The app must not run without its image or system packages. */
  readonly requireImage: boolean;
  readonly containerRuntime: "v1" | "v2" | null;
  readonly useUv: boolean;
  readonly deploymentInitializationTimeoutSeconds: number;
  readonly extraParams: "reject" | "ignore";
  readonly sse: "auto" | "wrap";
  readonly fork: "auto" | "never";
  readonly network: Network;
  readonly unixSockets: boolean;
  readonly recordPayloads: "all" | "async" | "none";
};

export type HardwareConfig = {
  readonly cpu: number;
  readonly memoryGb: number;
  readonly compute: readonly string[];
  readonly gpuCount: number;
  /** Of each GPU; null for whole GPUs, absent from versions of before the key. */
  readonly gpuMemoryGb?: number | null;
  readonly provider: string | null;
  readonly region: string | null;
};

/** The values that the app has set itself; null for a default. */
type NamedValues = {
  /** A limit for each replica; the default is a share and no limit. */
  readonly cpu: number | null;
  readonly memoryGb: number | null;
  /** Holds on every engine; the default depends on the engine. */
  readonly templateKeepSeconds: number | null;
};

/** The Python that an app asks for: "3.12", or "3.12.4", whose third number is a preference. */
export type PythonWish = { readonly version: string; readonly isStrict: boolean };

/** Null if the app accepts any Python. */
export function pythonWish(
  app: Pick<DeploymentConfig, "pythonVersion" | "pythonVersionStrict">,
): PythonWish | null {
  const { pythonVersion: version, pythonVersionStrict: isStrict } = app;
  return version === null ? null : { version, isStrict };
}

/** Whether that is the name of a GPU, not the word for none. */
export function isGpu(compute: string): boolean {
  return compute.toUpperCase() !== "CPU";
}

/** How a replica is picked for a call. */
export const LOAD_BALANCING = [
  "min-connections",
  "round-robin",
  "first-available",
  "random-choice-2",
] as const;
export type LoadBalancing = (typeof LOAD_BALANCING)[number];

/** The metric that scaling follows. */
export const SCALING_METRICS = [
  "concurrency_utilization",
  "requests_per_second",
  "cpu_utilization",
  "memory_utilization",
] as const;
type ScalingMetric = (typeof SCALING_METRICS)[number];

export type ScalingConfig = {
  readonly minReplicas: number;
  readonly maxReplicas: number;
  readonly replicaConcurrency: number;
  readonly cooldownSeconds: number;
  readonly responseGracePeriodSeconds: number;
  readonly scalingMetric: ScalingMetric;
  /** Percent for the utilizations, calls per second and replica for requests_per_second. */
  readonly scalingTarget: number;
  readonly scalingBuffer: number;
  readonly rollOutDurationSeconds: number;
  readonly evaluationIntervalSeconds: number;
  readonly loadBalancingAlgorithm: LoadBalancing;
  readonly computeTier: string | null;
  readonly maxQueue: number;
  readonly maxQueueSeconds: number;
  readonly maxAttempts: number;
  readonly templateKeepSeconds: number;
};

/** How much of an app's lines is kept by default. */
export const DEFAULT_LOG_BYTES = 500_000_000;

export type LimitsConfig = {
  readonly maxBodyBytes: number;
  readonly maxResultBytes: number;
  readonly maxChunkBytes: number;
  readonly maxTranscriptBytes: number;
  readonly resultRetentionSeconds: number;
  readonly maxLogBytes: number;
  readonly streamStallTimeoutSeconds: number;
};

/** How calls of a function share one execution. */
export type BatchingConfig = {
  /** Calls, or with `size` the sum of their sizes. */
  readonly maxSize: number;
  readonly maxWaitSeconds: number;
  /** The parameter whose value all calls of a batch share; null for any. */
  readonly key: string | null;
  /** The parameter that says how large a call is; null: each counts as one. */
  readonly size: string | null;
  readonly targetLatencySeconds: number | null;
  readonly onError: "split" | "fail";
  /** The class that runs the calls in place of a function; null for a function. */
  readonly stepper: string | null;
};

/** When an async run that has failed begins again. */
export type RetryConfig = {
  /** Null for that of the scaling. */
  readonly maxAttempts: number | null;
  readonly initialDelaySeconds: number;
  readonly backoff: number;
  readonly maxDelaySeconds: number;
  readonly jitter: number;
  /** Words of `RETRY_CAUSES`, and names of exceptions. */
  readonly on: readonly string[];
};

/** How many runs may begin in each period. */
export type Rate = { readonly count: number; readonly periodSeconds: number };

/** What an app allows its async runs, on all nodes together; null for no limit. */
export type QueueConfig = {
  /** How many of them run at once. */
  readonly concurrencyLimit: number | null;
  /** The same for the runs of each concurrency key. */
  readonly concurrencyKeyLimit: number | null;
  readonly rateLimit: Rate | null;
  /** The same for the runs of each concurrency key. */
  readonly concurrencyKeyRateLimit: Rate | null;
  /** How many may wait for their turn; beyond that, calls are refused. */
  readonly maxBacklog: number | null;
};

export type DependenciesConfig = {
  /** Package name → version spec. */
  readonly pip: Readonly<Record<string, string>>;
  readonly apt: Readonly<Record<string, string>>;
  readonly conda: Readonly<Record<string, string>>;
  /** Kind → path of a file in the bundle that lists the packages instead. */
  readonly paths: { readonly pip: string | null; readonly apt: string | null; readonly conda: string | null };
};

export type CustomRuntimeConfig = {
  readonly entrypoint: readonly string[];
  readonly port: number;
  readonly healthcheckEndpoint: string | null;
  readonly readycheckEndpoint: string | null;
  readonly passAuthorization: boolean;
  readonly websocketMaxAgeSeconds: number;
  readonly websocketIdleSeconds: number;
  readonly dockerfilePath: string | null;
};
