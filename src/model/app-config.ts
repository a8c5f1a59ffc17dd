/** What an app's configuration file decides, every default filled in. Times are seconds, sizes bytes. */
export type AppConfig = {
  readonly deployment: DeploymentConfig;
  readonly hardware: HardwareConfig;
  /** What the app has set itself, where that differs from a default. */
  readonly named: NamedValues;
  readonly scaling: ScalingConfig;
  readonly limits: LimitsConfig;
  readonly dependencies: DependenciesConfig;
  /** The app is a server of its own; null for one that offers functions. */
  readonly customRuntime: CustomRuntimeConfig | null;
  /** The image that was built for this version, for clusters; absent for none. No file says so. */
  readonly built?: BuiltImage;
};

/** An image that a build has pushed. */
export type BuiltImage = {
  /** By its digest. */
  readonly reference: string;
  /** How the author of its Dockerfile has it start; null where Millrace wrote that. */
  readonly start: ImageStart | null;
};

/** `WORKDIR`, `ENV`, and `ENTRYPOINT` with `CMD`. */
type ImageStart = {
  readonly folder: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly command: readonly string[];
};

/** Whether an app may use the network; with `egress`, only addresses outside of this one. */
export type Network = boolean | "egress";

export type DeploymentConfig = {
  /** Null when the file names no app: then the folder's name is used. */
  readonly name: string | null;
  /** Null means the service's own. */
  readonly pythonVersion: string | null;
  /** A newer one will not do. */
  readonly pythonVersionStrict: boolean;
  readonly disableAuth: boolean;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly shellCommands: readonly string[];
  readonly preBuildCommands: readonly string[];
  readonly dockerBaseImageUrl: string | null;
  /** Without its image or system packages the app is not to run. */
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
  readonly provider: string | null;
  readonly region: string | null;
};

/** Null for what the app leaves to its default. */
type NamedValues = {
  /** A limit for each replica; the default is a share and no limit. */
  readonly cpu: number | null;
  readonly memoryGb: number | null;
  /** Holds on every engine; the default depends on the engine. */
  readonly templateKeepSeconds: number | null;
};

/** A Python that an app asks for. */
export type PythonWish = {
  /** Such as "3.12", or "3.12.4", whose third number is a wish. */
  readonly version: string;
  /** A newer one will not do. */
  readonly isStrict: boolean;
};

/** The Python that a version of an app asks for; null where any will do. */
export function pythonWish({
  pythonVersion,
  pythonVersionStrict,
}: Pick<DeploymentConfig, "pythonVersion" | "pythonVersionStrict">): PythonWish | null {
  return pythonVersion === null ? null : { version: pythonVersion, isStrict: pythonVersionStrict };
}

/** Whether that is the name of a GPU, and not the word for none. */
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

/** How much of an app's lines is kept unless it says otherwise. */
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
