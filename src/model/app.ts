import type { AppConfig, ScalingConfig } from "./app-config.ts";

export type Project = {
  readonly id: string;
  readonly name: string;
  /** Epoch milliseconds, as every `…At` in the code. */
  readonly createdAt: number;
};

export type App = {
  /** Small and dense: the leading column of the runs' primary key. */
  readonly number: number;
  readonly projectId: string;
  readonly name: string;
  /** The version that takes new calls; null until one is ready. */
  readonly currentVersionId: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
};

/** How long an app's results are kept, and how much of its lines. */
export type AppRetention = {
  readonly appNumber: number;
  readonly retentionMs: number;
  readonly maxLogBytes: number;
};

/** Secrets by name: those of a project or of an app. */
export type SecretMap = Readonly<Record<string, string>>;

/** A JSON Schema that refers only to its own `$defs`. */
export type JsonSchema = { readonly [keyword: string]: unknown };

export type Parameter = {
  readonly name: string;
  readonly kind: "named" | "rest";
  readonly required: boolean;
  readonly annotation: string | null;
  readonly default: string | null;
  /** From its type hint and default; absent if they were not examined. */
  readonly schema?: JsonSchema;
};

export type FunctionSignature = {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly isAsync: boolean;
  readonly isGenerator: boolean;
  /** It has a parameter `run_id`, which the service fills in. */
  readonly wantsRunId: boolean;
  readonly doc: string | null;
  /** It yields items: a generator, or hinted to return an iterator. */
  readonly streams?: boolean;
  /** The schema of its result or, if it streams, of each item. */
  readonly returns?: JsonSchema;
  /** Its calls share executions: it takes and returns lists, or a stepper runs it. The schemas are those of one call. */
  readonly batch?: "list" | "stepper";
};

/** The settings of a version that can be changed while it serves. */
export type ScalingOverrides = Partial<
  Pick<
    ScalingConfig,
    "minReplicas" | "maxReplicas" | "cooldownSeconds" | "responseGracePeriodSeconds" | "replicaConcurrency"
  >
>;

/** A version's blobs, for services that do not have its files; null if there is none. */
export type VersionBlobs = {
  readonly bundleBlob: string | null;
  /** Null if it was stored before lengths were, as below. */
  readonly bundleBytes: number | null;
  readonly environmentBlob: string | null;
  readonly environmentBytes: number | null;
  /** Which Python and platform those packages are for. */
  readonly environmentTag: string | null;
};

/** An immutable deploy of an app. Its id is the build id of the management API. */
export type Version = VersionBlobs & {
  readonly id: string;
  readonly appNumber: number;
  /** 1, 2, 3… within the app. */
  readonly number: number;
  /** As deployed, with the overrides applied. */
  readonly config: AppConfig;
  readonly overrides: ScalingOverrides | null;
  /** The id of the folder with `main.py`; each host has its own path for it. */
  readonly bundle: string;
  /** Of the bundle's files, if it came from a folder. */
  readonly bundleHash: string | null;
  /** The id of the folder of its installed packages; null if it has none. */
  readonly environment: string | null;
  /** Null until a replica has reported them. */
  readonly functions: readonly FunctionSignature[] | null;
  readonly createdAt: number;
};

/** The current status of an app that is served. */
export type LiveStatus = {
  readonly appNumber: number;
  readonly version: { readonly number: number; readonly buildId: string };
  readonly state: "ready" | "notready" | "error" | "cold";
  readonly replicas: { readonly starting: number; readonly ready: number; readonly draining: number };
  /** Calls that wait, and calls in replicas. */
  readonly waiting: number;
  readonly running: number;
  readonly oldestWaitMs: number;
  readonly coldStarts: number;
};
