import { isAbsolute } from "node:path";
import { blobAddress } from "./blob-address.ts";
import { podOverrides } from "./pod-overrides.ts";
import {
  integer,
  line,
  listOf,
  mapped,
  matching,
  oneOf,
  optional,
  publicUrl,
  setting,
  resolvedPath,
} from "./readers.ts";
import type { Reader, SettingKeys } from "./readers.ts";

const databaseUrl: Reader<string> = {
  ...matching(
    "an address that begins with postgres:// or postgresql://",
    (text) => /^postgres(ql)?:\/\//.test(text) && hostUrls(text).every((url) => URL.canParse(url)),
  ),
  secret: true,
};

const nodeUrl = mapped(
  matching("an address with a port, such as https://10.0.0.5:4200", (text) => {
    const { protocol, port, pathname, search, hash, username } = URL.parse(text) ?? {};
    const isBare = pathname === "/" && search === "" && hash === "" && username === "";
    return protocol === "https:" && port !== "" && isBare;
  }),
  (text) => new URL(text).origin,
);

const namespaceName = matching("the name of a namespace", (text) =>
  /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(text),
);

/** Takes the name of a Kubernetes object. */
const nameOf = (what: string): Reader<string> =>
  matching(`the name of ${what}`, (text) => /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(text));

const absolutePath = matching("a whole path", (text) => isAbsolute(text) && text.length <= 4096);

/**
 * A dot or a port tells a host from a folder. `localhost` is refused: inside a pod that is the pod itself, where a build
 * step could listen and receive the registry's credentials.
 */
const REGISTRY =
  /^(?!localhost:|127\.)(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(?::\d{1,5})?(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*){0,8}$/;

const registry = matching(
  "a registry with a path, such as registry.internal:5000/millrace",
  (text) => text.length <= 150 && REGISTRY.test(text),
);

const MAX_RAY_RESOURCES = 16;
const RAY_RESOURCE = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}=(?:0*[1-9]\d{0,5}|0?\.\d{1,4})$/;
const RESERVED: ReadonlySet<string> = new Set(["CPU", "GPU", "memory", "object_store_memory"]);

/** Gives amounts by the names that the Ray cluster gave them. */
const rayResources: Reader<Readonly<Record<string, number>>> = mapped(
  listOf(
    `at most ${MAX_RAY_RESOURCES} resources such as apps=1,ssd=0.5`,
    matching(
      "a resource such as apps=1",
      (text) => RAY_RESOURCE.test(text) && !RESERVED.has(text.split("=")[0]!),
    ),
    MAX_RAY_RESOURCES,
  ),
  (pairs) => {
    const split = pairs.map((pair) => pair.split("="));
    return Object.fromEntries(split.map(([name, amount]) => [name, Number(amount)]));
  },
);

/** Postgres, and what several services share. */
export const NODE_KEYS = {
  databaseUrl: setting("database_url", optional(databaseUrl)).describe(
    "Postgres to use instead of SQLite in the data directory. If it names several hosts, the one that takes writes is used.",
  ),
  databaseDirectUrl: setting("database_direct_url", optional(databaseUrl)).describe(
    "If database_url leads through a pooler: the same database without it, for migrations and for changes that other services announce.",
  ),
  masterKeyFile: setting("master_key_file", optional(resolvedPath)).describe(
    "The file with the key that encrypts secrets in the database. It must exist, and other users must not be able to read it. If unset, `master.key` in the data directory, which the first start creates.",
  ),
  nodeUrl: setting("node_url", optional(nodeUrl)).describe(
    "With Postgres: the address at which the other services of the installation reach this one, such as https://10.0.0.5:4200. If unset, only services of the same machine can.",
  ),
  blobs: setting("blobs", optional(blobAddress)).describe(
    "Where services that share a Postgres keep bundles, environments and large payloads: a directory they all see, or s3://bucket/prefix with the options endpoint, region and path_style. If unset, `blobs` in the data directory.",
  ),
  volumes: setting("volumes", optional(absolutePath)).describe(
    "Where the volumes of projects are, on a file system that all services of the installation see. If unset, below `blobs` if that is a directory, else in the data directory.",
  ),
} satisfies SettingKeys;

/** Where replicas run, and how they reach the service from other machines. */
export const ENGINE_KEYS = {
  engine: setting("engine", oneOf(["process", "kubernetes", "ray"]), "process").describe(
    "Where replicas run: as processes of this machine, as pods of a Kubernetes cluster, or in actors of a Ray cluster.",
  ),
  replicasPerSeat: setting("replicas_per_seat", integer(1, 1_000), "1").describe(
    "How many replicas of a version share a pod or an actor. They are forks of one process, so another one starts in milliseconds. The pod or actor has cpu and memory for all of them.",
  ),
  seatUrl: setting("seat_url", optional(nodeUrl)).describe(
    "With an engine that runs replicas on other machines: the address at which they reach this service, such as https://10.0.0.5:4300. If unset, only those of the same machine can.",
  ),
  seatServiceUrl: setting("seat_service_url", optional(nodeUrl)).describe(
    "With an engine that runs replicas on other machines: an address that leads to any service, now and later, such as that of a Kubernetes Service, at the port of seat_url. Replicas look for the next service there when all services they know are gone. A name is resolved when this service starts.",
  ),
} satisfies SettingKeys;

/** How replicas run, and images are built, in a Kubernetes cluster. */
export const KUBERNETES_KEYS = {
  kubernetesConfig: setting("kubernetes_config", optional(resolvedPath)).describe(
    "The kubeconfig file that says how to reach Kubernetes. If unset, the service account of the pod that the service runs in.",
  ),
  kubernetesNamespace: setting("kubernetes_namespace", optional(namespaceName)).describe(
    "The namespace for the pods of apps. If unset, the one of the kubeconfig or the service account.",
  ),
  kubernetesImage: setting("kubernetes_image", optional(line(2048))).describe(
    "The worker image that pods run, required with engine = kubernetes; `{python}` stands for the Python version of the app, such as 3.12.",
  ),
  kubernetesStorage: setting("kubernetes_storage", optional(nameOf("a claim"))).describe(
    "A ReadWriteMany claim in that namespace for the persistent storage of projects, each in a folder named by its id; best the file system of MILLRACE_VOLUMES. If unset, an app's files are lost with its pod.",
  ),
  kubernetesPod: setting("kubernetes_pod", podOverrides, "{}").describe(
    "What to add to every pod of an app, such as tolerations or a priority class.",
  ),
  registry: setting("registry", optional(registry)).describe(
    "Where images that are built in a Kubernetes cluster are pushed to and pulled from, such as `registry.internal:5000/millrace`. Use it for nothing else. If unset, apps with a Dockerfile are refused there, and system packages are left out with a warning, or refused if the app sets require_image.",
  ),
  registrySecret: setting("registry_secret", optional(nameOf("a secret"))).describe(
    "The Secret, of type `kubernetes.io/dockerconfigjson`, with which pods push to and pull from that registry. The service never reads it. If unset, pods use no credentials.",
  ),
  buildkitNamespace: setting("buildkit_namespace", optional(namespaceName)).describe(
    "The namespace for pods that build images, which has to admit pods of the privileged profile. If unset, the one of all other pods.",
  ),
} satisfies SettingKeys;

/** How a Ray cluster is reached. */
export const RAY_KEYS = {
  rayAddress: setting("ray_address", optional(publicUrl())).describe(
    "The address of the Ray cluster's dashboard, which takes jobs, such as http://10.0.0.5:8265; required with engine = ray.",
  ),
  rayTokenFile: setting("ray_token_file", optional(resolvedPath)).describe(
    "A file with the token of the Ray cluster, if it asks for one. It is read for each request, so that you can replace it.",
  ),
  rayResources: setting("ray_resources", rayResources, "").describe(
    "Resources of the Ray cluster that each replica asks for beside CPU, memory and GPU, such as apps=1.",
  ),
} satisfies SettingKeys;

/** Everything up to the hosts, the hosts with their ports, and everything after them. */
const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s;

/**
 * The addresses that a Postgres address stands for, one for each host that it names, as libpq reads it:
 * `postgres://user@a:5432,b:5433/name`, or `…?host=a,b&port=5432,5433`. The address itself where it names one.
 */
export function hostUrls(databaseUrl: string): string[] {
  const [, head = "", hosts = "", rest = ""] = PARTS.exec(databaseUrl) ?? [];
  if (hosts.includes(",")) return hosts.split(",").map((host) => head + host + rest);
  if (!URL.canParse(databaseUrl)) return [databaseUrl];
  const url = new URL(databaseUrl);
  const names = url.searchParams.get("host")?.split(",") ?? [];
  const ports = url.searchParams.get("port")?.split(",") ?? [];
  if (names.length < 2) return [databaseUrl];
  return names.map((name, index) => {
    url.searchParams.set("host", name);
    // One port is for all of them.
    const port = ports[index] ?? ports[0];
    if (port !== undefined) url.searchParams.set("port", port);
    return url.href;
  });
}
