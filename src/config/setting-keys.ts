import { ENGINE_KEYS, KUBERNETES_KEYS, NODE_KEYS, RAY_KEYS } from "./cluster-keys.ts";
import type { SettingKey, SettingKeys } from "./readers.ts";
import type { MetricExportSettings } from "./metric-export.ts";
import type { TraceSettings } from "./telemetry.ts";
import { GPU_KEYS, IMAGE_KEYS, LIMIT_KEYS, SERVICE_KEYS, WALL_KEYS } from "./service-keys.ts";

/** Every setting, once. Flags, environment and file follow from these rows. */
export const SETTING_KEYS = {
  ...SERVICE_KEYS,
  ...LIMIT_KEYS,
  ...WALL_KEYS,
  ...GPU_KEYS,
  ...IMAGE_KEYS,
  ...NODE_KEYS,
  ...ENGINE_KEYS,
  ...KUBERNETES_KEYS,
  ...RAY_KEYS,
};

/** The headings of docs/config.md, which say who sets what. */
export const SETTING_GROUPS: Readonly<Record<string, SettingKeys>> = {
  "For every installation": SERVICE_KEYS,
  "Limits and retention": LIMIT_KEYS,
  "Isolation and network of apps": WALL_KEYS,
  "GPUs of a machine": GPU_KEYS,
  "Images on one machine": IMAGE_KEYS,
  "Several nodes": NODE_KEYS,
  "Replicas on other machines": ENGINE_KEYS,
  Kubernetes: KUBERNETES_KEYS,
  Ray: RAY_KEYS,
};

/** Values that only tests change: no flag or key sets them, and no document names them. */
export const INTERNALS = {
  buildkitConfig: "millrace-buildkit",
  buildkitDiskBytes: 20_000_000_000,
  buildkitImage: "docker.io/moby/buildkit:v0.31.2-rootless",
  headerTimeoutMs: 10_000,
  /** Whether seats wait for the next service when this one stops and is the last. */
  keepSeats: true,
  kubernetesBuildWaitMs: 300_000,
  /** Null means that it follows from `maxConnections`. */
  maxConnectionsPerAddress: null as number | null,
  maxUploadBytes: 2 ** 31,
  /** Null means the host's name. */
  nodeName: null as string | null,
  /** Null means the port of `seatUrl`. */
  seatPort: null as number | null,
};

type Values<Keys> = {
  readonly [K in keyof Keys]: Keys[K] extends SettingKey<infer T> ? T : never;
};

/** How the service runs, with every default filled in. */
export type Settings = Values<typeof SETTING_KEYS> &
  Readonly<typeof INTERNALS> & {
    /** From the variables of OpenTelemetry; null: traces are not exported. */
    readonly traces: TraceSettings | null;
    /** The same for metrics. */
    readonly metricExport: MetricExportSettings | null;
  };

/** Settings of earlier releases, and what to do without each. The service does not start while one is set. */
export const DROPPED: Readonly<Record<string, string>> = {
  auth_grace: "tokens seen before are accepted for 5 minutes while the database cannot be reached",
  buildkit_config: "name the ConfigMap millrace-buildkit",
  buildkit_disk: "the build of an image may use 20 GB of its machine's disk",
  buildkit_image: "have your cluster mirror docker.io/moby/buildkit",
  environment_retention: "unused environments are kept for 24 hours",
  header_timeout: "a request's headers may take 10 seconds",
  keep_seats: "pods and actors always wait 30 seconds for the next service",
  kubernetes_build_wait: "a build waits 5 minutes for its pod",
  kubernetes_request_factor: "pods reserve a quarter of their app's cpu and memory",
  log_retention: "use record_retention, which also covers log lines, and max_logs",
  max_app_body: "limits.max_body of an app is at most 256MiB",
  max_app_chunk: "limits.max_chunk of an app is at most 64MiB",
  max_app_result: "limits.max_result of an app is at most 256MiB",
  max_app_transcript: "limits.max_transcript of an app is at most 1GiB",
  max_connections_per_address: "it follows from max_connections",
  max_upload: "a zip may have up to 2 GiB; bring larger files with volumes",
  node_labels: "nodes have no labels",
  node_name: "a node has the name of its host",
  node_port: "the service listens on the port of node_url",
  ray_token: "write the token to a file and set ray_token_file",
  seat_port: "the service listens on the port of seat_url",
  server_ports: "servers get free ports from 21000 to 24999",
};

/** What the name of every environment variable of ours begins with. */
export const ENV_PREFIX = "MILLRACE_";

/** `data_dir` → `--data-dir`. */
export function flagOf(name: string): string {
  return `--${name.replaceAll("_", "-")}`;
}

/** `data_dir` → `MILLRACE_DATA_DIR`. */
export function envOf(name: string): string {
  return ENV_PREFIX + name.toUpperCase();
}

/** `data_dir` → `dataDir`, the member a command-line parser makes of the flag. */
export function flagMemberOf(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
