import { resolve } from "node:path";
import { IMAGE_BUILD_KEYS } from "./image-build-keys.ts";
import type { ImageBuildSettings } from "./image-build-keys.ts";
import { podOverrides } from "./pod-overrides.ts";
import type { PodOverrides } from "./pod-overrides.ts";
import { decimal, integer, line, mapped, matching, oneOf, optional } from "./readers.ts";
import { RAY_KEYS } from "./ray-keys.ts";
import type { RaySettings } from "./ray-keys.ts";
import type { SettingKey } from "./setting-key.ts";
import { milliseconds } from "./setting-readers.ts";

/** Where replicas run. */
const ENGINES = ["process", "kubernetes", "ray"] as const;

/** Where replicas run, and how that place is reached. */
export type EngineSettings = RaySettings &
  ImageBuildSettings & {
    readonly engine: (typeof ENGINES)[number];
    readonly replicasPerSeat: number;
    /** Absolute; null means the account that Kubernetes gives to its own pods. */
    readonly kubernetesConfig: string | null;
    /** Null means the one that the configuration or the account names. */
    readonly kubernetesNamespace: string | null;
    /** `{python}` stands for a version such as 3.12. */
    readonly kubernetesImage: string | null;
    readonly kubernetesRequestFactor: number;
    readonly kubernetesBuildWaitMs: number;
    /** Null means that what apps store lasts as long as their pod. */
    readonly kubernetesStorage: string | null;
    readonly kubernetesPod: PodOverrides;
  };

const NAMESPACE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

const CLAIM = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;

/** Their rows, among those of all settings. */
export const ENGINE_KEYS: { readonly [K in keyof EngineSettings]: SettingKey<EngineSettings[K]> } = {
  engine: {
    name: "engine",
    reader: oneOf(ENGINES),
    default: "process",
    meaning:
      "Where replicas run: as processes of this machine, as pods of a Kubernetes cluster, or in actors of a Ray cluster.",
  },
  replicasPerSeat: {
    name: "replicas_per_seat",
    reader: integer(1, 1_000),
    default: "1",
    meaning:
      "How many replicas of a version share a pod. They are forks of one process, so that a further one starts in milliseconds; a pod has cpu and memory for all of them.",
  },
  kubernetesConfig: {
    name: "kubernetes_config",
    reader: optional(mapped(line(4096), (path) => resolve(path))),
    default: null,
    meaning:
      "The kubeconfig file that says how to reach Kubernetes. If unset, the service account of the pod that the service runs in.",
  },
  kubernetesNamespace: {
    name: "kubernetes_namespace",
    reader: optional(matching("the name of a namespace", (text) => NAMESPACE.test(text))),
    default: null,
    meaning:
      "The namespace for the pods of apps. If unset, the one of the kubeconfig or the service account.",
  },
  kubernetesImage: {
    name: "kubernetes_image",
    reader: optional(line(2048)),
    default: null,
    meaning:
      "The worker image that pods run, required with engine = kubernetes; `{python}` stands for the Python version of the app, such as 3.12.",
  },
  kubernetesRequestFactor: {
    name: "kubernetes_request_factor",
    reader: decimal(0.01, 1),
    default: "0.25",
    meaning: "How much of an app's cpu and memory its pods reserve on a machine; the rest is shared.",
  },
  kubernetesBuildWaitMs: {
    name: "kubernetes_build_wait",
    reader: milliseconds("1s", "1h"),
    default: "5m",
    meaning:
      "How long a build waits for its pod to start, a machine that the cluster adds and a pull of its image included, before it fails with the cluster's reason.",
  },
  kubernetesStorage: {
    name: "kubernetes_storage",
    reader: optional(matching("the name of a claim", (text) => CLAIM.test(text))),
    default: null,
    meaning:
      "A ReadWriteMany claim in that namespace for the persistent storage of projects, each in a folder by its id; best the file system of MILLRACE_VOLUMES. If unset, what an app stores lasts as long as its pod.",
  },
  kubernetesPod: {
    name: "kubernetes_pod",
    reader: podOverrides,
    default: "{}",
    meaning: "What to add to every pod of an app, such as tolerations or a priority class.",
  },
  ...IMAGE_BUILD_KEYS,
  ...RAY_KEYS,
};
