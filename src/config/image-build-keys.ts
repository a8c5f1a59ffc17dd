import { line, matching, optional, size } from "./readers.ts";
import type { SettingKey } from "./setting-key.ts";

/** Where images of apps are built in a cluster, and where they go. */
export type ImageBuildSettings = {
  /** A host, with a path below which images are ours; null means that none are built. */
  readonly registry: string | null;
  /** The Secret that opens it; null means that it is open. */
  readonly registrySecret: string | null;
  readonly buildkitImage: string;
  /** Null means the one of all other pods. */
  readonly buildkitNamespace: string | null;
  /** The ConfigMap that holds `buildkitd.toml`; null for none. */
  readonly buildkitConfig: string | null;
  readonly buildkitDiskBytes: number;
};

/**
 * A host is told from a folder by a dot or a port. `localhost` is no registry: in a pod that is the pod itself, where a step
 * of a build could listen, and be shown what opens the registry.
 */
const REGISTRY =
  /^(?!localhost:|127\.)(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(?::\d{1,5})?(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*){0,8}$/;
const OBJECT = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;
const NAMESPACE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Their rows, among those of all settings. */
export const IMAGE_BUILD_KEYS: {
  readonly [K in keyof ImageBuildSettings]: SettingKey<ImageBuildSettings[K]>;
} = {
  registry: {
    name: "registry",
    reader: optional(
      matching(
        "a registry with a path, such as registry.internal:5000/millrace",
        (text) => text.length <= 150 && REGISTRY.test(text),
      ),
    ),
    default: null,
    meaning:
      "Where images that are built in a Kubernetes cluster are pushed to and pulled from, such as `registry.internal:5000/millrace`. Keep it for Millrace alone. If unset, apps that need an image built are refused there.",
  },
  registrySecret: {
    name: "registry_secret",
    reader: optional(matching("the name of a secret", (text) => OBJECT.test(text))),
    default: null,
    meaning:
      "The Secret, of type `kubernetes.io/dockerconfigjson`, by which pods push to and pull from that registry. The service never reads it. If unset, the registry is open to pods.",
  },
  buildkitImage: {
    name: "buildkit_image",
    reader: line(2048),
    default: "docker.io/moby/buildkit:v0.31.2-rootless",
    meaning: "The image of BuildKit that builds images in a Kubernetes cluster: a rootless one.",
  },
  buildkitNamespace: {
    name: "buildkit_namespace",
    reader: optional(matching("the name of a namespace", (text) => NAMESPACE.test(text))),
    default: null,
    meaning:
      "The namespace for pods that build images, which has to admit pods of the privileged profile. If unset, the one of all other pods.",
  },
  buildkitConfig: {
    name: "buildkit_config",
    reader: optional(matching("the name of a config map", (text) => OBJECT.test(text))),
    default: null,
    meaning:
      "A ConfigMap in that namespace with a `buildkitd.toml`, for mirrors and certificates of registries; it is mounted at /etc/buildkit.",
  },
  buildkitDiskBytes: {
    name: "buildkit_disk",
    reader: size("100MB", "10TB"),
    default: "20GB",
    meaning: "How much disk of its machine the build of an image may use; beyond it, the cluster ends it.",
  },
};
