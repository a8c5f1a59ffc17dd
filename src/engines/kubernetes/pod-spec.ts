import type { PodOverrides } from "../../config/pod-overrides.ts";
import { PRODUCT, productsFor } from "./gpu-products.ts";
import type { SeatOrder } from "../agent/seat-place.ts";
import type { Workload } from "../engine.ts";
import { COMPUTE, CONTAINER, NETWORK, NODE, SEAT, type Whose } from "./labels.ts";
import { labelsOf, labelValue, networkLabel, ownerName, workloadLabels } from "./labels.ts";
import { besideBuildKit, type ImagePodParts } from "./image-pod.ts";
import type { Settings } from "../../config/setting-keys.ts";

export type PodParts = {
  readonly whose: Whose;
  /** The worker image; `{python}` is replaced by a version such as 3.12. */
  readonly image: string;
  readonly python: string;
  /** Each gets the resources that its app asks for. */
  readonly replicasPerSeat: number;
  readonly maxScratchBytes: number;
  /** The volume claim for the storage of projects; null for none. */
  readonly storage: string | null;
  readonly overrides: PodOverrides;
  /** How images are built and where they are stored; null if none are. */
  readonly images: (ImagePodParts & { readonly registry: string }) | null;
};

/** Where the worker image has the agent and the harness. */
export const PYTHON_DIR = "/opt/millrace/python";
export const AGENT_COMMAND = ["python3", "-I", `${PYTHON_DIR}/millrace_agent`];
/** Where they are copied to for an image without them. */
const AGENT_DIR = "/agent";
const AGENT_SIZE = "64Mi";
/** A service ends builds earlier. This also ends them if the service is gone. */
const BUILD_SECONDS = 4 * 60 * 60;
const ORDER_DIR = "/run/millrace";
const WORK_DIR = "/work";
const SCRATCH_DIR = "/tmp";
/** Where an app has its project's storage. */
const STORAGE_DIR = "/persistent-storage";
/** The user of the worker image. */
const USER = 10_001;
/** The default shared memory of a pod is too little for PyTorch. It counts as memory. */
const SHARED_MEMORY = "2Gi";
/** For every container: its last output explains a failure, and its log is lost with the pod. */
const EXPLAINED = { terminationMessagePolicy: "FallbackToLogsOnError" } as const;
const WALLS = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};
/** The runtime classes for `container_runtime`; null is the cluster's default. */
const RUNTIME_CLASSES = { v1: null, v2: "gvisor" } as const;
/** The agent and the harness alone need that. */
const LEAST_MEMORY_BYTES = 32 * 1024 * 1024;
const LEAST_CPU_MILLIS = 10;
/** The share of its limits that a pod reserves on a machine. */
const REQUESTED = 0.25;

/** The limit for a pod's name, which is also its host name. */
const MAX_NAME = 63;

/** The name of a seat's pod and secret. The seat id makes it unique; the rest is for people, as far as there is room. */
export function podName(seatId: string, { projectId, names }: Pick<Workload, "projectId" | "names">): string {
  const room = MAX_NAME - seatId.length - 1;
  const end = names ? `-${dnsLabel(names.version, room)}` : "";
  const start = dnsLabel(names ? `${projectId}-${names.app}` : projectId, room - end.length);
  return `${start}${end}-${seatId}`;
}

/** Makes a text part of a DNS label. */
function dnsLabel(text: string, most: number): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]/g, "-")
    .slice(0, Math.max(0, most))
    .replaceAll(/^-+|-+$/g, "");
}

/** The pod of a seat. It holds only the app's name and size; the agent fetches the rest. */
export function podOf(given: PodParts, ownerUid: string, order: SeatOrder, workload: Workload): object {
  const parts = workload.isBuild ? { ...given, storage: null, replicasPerSeat: 1 } : given;
  const { whose } = parts;
  const name = podName(order.seatId, workload);
  const spec = specOf(parts, name, workload);
  const labels = { ...workloadLabels(workload), [NETWORK]: networkLabel(workload.network) };
  const ownerReferences = [ownerOf("ConfigMap", ownerName(whose.installationId), ownerUid)];
  const beside = { resources: resourcesOf(parts, workload), walls: WALLS };
  const { images } = parts;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadataOf(parts, name, order.seatId, labels), ownerReferences },
    spec: images && workload.buildsImage ? besideBuildKit(spec, images, beside) : spec,
  };
}

export function metadataOf({ whose, overrides }: PodParts, name: string, seatId: string, more: object = {}) {
  const labels = { ...overrides.labels, ...labelsOfSeat(whose, seatId), ...more };
  return { name, labels, annotations: overrides.annotations };
}

function labelsOfSeat({ installationId, nodeId }: Whose, seatId: string): Record<string, string> {
  return { ...labelsOf(installationId), [NODE]: nodeId, [SEAT]: seatId };
}

export function specOf(parts: PodParts, name: string, workload: Workload) {
  const { overrides } = parts;
  const sizeLimit = String(parts.maxScratchBytes);
  return {
    ...overrides.spec,
    ...placementOf(workload, overrides),
    // An ended seat is replaced by a new one.
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: graceOf(workload, overrides),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      fsGroup: USER,
      // Otherwise some clusters change every file of a claim at each start.
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    },
    ...(workload.isBuild && { activeDeadlineSeconds: BUILD_SECONDS }),
    ...pullSecretsOf(parts, workload),
    ...(workload.image && { initContainers: [agentBringer(parts, workload)] }),
    containers: [containerOf(parts, workload)] as const,
    volumes: [
      { name: "order", secret: { secretName: name, defaultMode: 0o440 } },
      { name: "work", emptyDir: { sizeLimit } },
      { name: "scratch", emptyDir: { sizeLimit } },
      { name: "storage", ...storageOf(parts, sizeLimit) },
      { name: "shared-memory", emptyDir: { medium: "Memory", sizeLimit: SHARED_MEMORY } },
      ...(workload.image ? [{ name: "agent", emptyDir: { sizeLimit: AGENT_SIZE } }] : []),
    ],
  };
}

/** The secret with a seat's order. It has the name of the pod, which owns it. */
export function secretOf({ whose }: PodParts, pod: { name: string; uid: string }, order: SeatOrder): object {
  const { name, uid } = pod;
  const labels = labelsOfSeat(whose, order.seatId);
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, labels, ownerReferences: [ownerOf("Pod", name, uid)] },
    immutable: true,
    stringData: { "order.json": JSON.stringify(order) },
  };
}

function containerOf(parts: PodParts, workload: Workload) {
  return {
    name: CONTAINER,
    image: workload.image ?? workerImage(parts, workload),
    imagePullPolicy: "IfNotPresent",
    command: [...AGENT_COMMAND, `${ORDER_DIR}/order.json`],
    workingDir: WORK_DIR,
    env: [
      { name: "HOME", value: SCRATCH_DIR },
      { name: "TMPDIR", value: WORK_DIR },
    ],
    ...EXPLAINED,
    resources: resourcesOf(parts, workload),
    securityContext: WALLS,
    volumeMounts: [
      { name: "order", mountPath: ORDER_DIR, readOnly: true },
      { name: "work", mountPath: WORK_DIR },
      { name: "scratch", mountPath: SCRATCH_DIR },
      { name: "storage", mountPath: STORAGE_DIR, ...(parts.storage && { subPath: workload.projectId }) },
      { name: "shared-memory", mountPath: "/dev/shm" },
      ...(workload.image ? [{ name: "agent", mountPath: PYTHON_DIR, readOnly: true }] : []),
    ],
  };
}

/** Copies agent and harness from the worker image into a pod with an image of its own. */
function agentBringer(parts: PodParts, workload: Workload): object {
  const copy = `import os, shutil
for name in os.listdir("${PYTHON_DIR}"):
    shutil.copytree("${PYTHON_DIR}/" + name, "${AGENT_DIR}/" + name)`;
  return {
    name: "agent",
    image: workerImage(parts, workload),
    imagePullPolicy: "IfNotPresent",
    command: ["python3", "-I", "-c", copy],
    ...EXPLAINED,
    resources: resourcesOf(parts, { ...workload, gpus: null }),
    securityContext: WALLS,
    volumeMounts: [{ name: "agent", mountPath: AGENT_DIR }],
  };
}

function workerImage({ image, python }: PodParts, workload: Workload): string {
  const [major, minor] = (workload.python?.version ?? python).split(".");
  return image.replaceAll("{python}", `${major}.${minor}`);
}

/** Limits are what the app asks for; requests are a part of that, so that idle apps leave room for others. */
function resourcesOf({ replicasPerSeat }: PodParts, { limits, gpus: wish }: Workload): object {
  const { memoryBytes, cpus, cpuShare } = limits;
  const millis = (amount: number): string =>
    `${Math.max(LEAST_CPU_MILLIS, Math.round(amount * replicasPerSeat * 1000))}m`;
  const bytes = (amount: number): string =>
    String(Math.max(LEAST_MEMORY_BYTES, Math.round(amount * replicasPerSeat)));
  const gpus = wish && { "nvidia.com/gpu": String(wish.count * replicasPerSeat) };
  return {
    limits: {
      ...(cpus !== null && { cpu: millis(cpus) }),
      ...(memoryBytes !== null && { memory: bytes(memoryBytes) }),
      ...gpus,
    },
    requests: {
      cpu: millis((cpus ?? cpuShare) * REQUESTED),
      ...(memoryBytes !== null && { memory: bytes(memoryBytes * REQUESTED) }),
      ...gpus,
    },
  };
}

/** Without a claim, storage is lost with the pod, and as small as its other folders: it is on the machine's disk. */
function storageOf({ storage }: PodParts, sizeLimit: string): object {
  return storage === null ? { emptyDir: { sizeLimit } } : { persistentVolumeClaim: { claimName: storage } };
}

/** The longest call, but at most what the operator allows for draining a machine. */
function graceOf({ graceMs }: Workload, { spec }: PodOverrides): number {
  const most = spec["terminationGracePeriodSeconds"] as number | undefined;
  return Math.min(Math.ceil(graceMs / 1000), most ?? Number.POSITIVE_INFINITY);
}

/** The registry's credentials, for images that were built there. */
function pullSecretsOf({ images, overrides }: PodParts, { image }: Workload): object {
  if (!images?.secret || !image?.startsWith(`${images.registry}/`)) return {};
  const given = (overrides.spec["imagePullSecrets"] as unknown[] | undefined) ?? [];
  return { imagePullSecrets: [...given, { name: images.secret }] };
}

/** The word for every model. */
const ANY = /^any$/i;

/** Machines with one of its GPUs, by our label or by NVIDIA's, and its sandbox. */
function placementOf({ gpus, containerRuntime }: Workload, { spec }: PodOverrides): object {
  const runtimeClassName = containerRuntime && RUNTIME_CLASSES[containerRuntime];
  const values = gpus?.models.map(labelValue);
  const isAny = gpus?.models.some((model) => ANY.test(model));
  const labelled = (key: string, labels: readonly string[] = []) => ({
    matchExpressions: [{ key, operator: "In", values: labels }],
  });
  // One of the terms has to hold.
  const nodeSelectorTerms = [labelled(COMPUTE, values), labelled(PRODUCT, productsFor(gpus?.models ?? []))];
  const machines = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
  const tolerations = (spec["tolerations"] as unknown[] | undefined) ?? [];
  const forGpus = { key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" };
  return {
    ...(runtimeClassName !== null && { runtimeClassName }),
    ...(gpus && !isAny && { affinity: { nodeAffinity: machines } }),
    ...(gpus && { tolerations: [...tolerations, forGpus] }),
  };
}

function ownerOf(kind: string, name: string, uid: string): object {
  return { apiVersion: "v1", kind, name, uid };
}

export function podPartsOf(
  settings: Settings,
  given: Pick<PodParts, "whose" | "python" | "image">,
): PodParts {
  const { replicasPerSeat, maxScratchBytes, kubernetesStorage: storage, kubernetesPod: overrides } = settings;
  const { registry, registrySecret: secret, buildkitImage: image, buildkitConfig: config } = settings;
  const images =
    registry === null ? null : { registry, secret, image, config, diskBytes: settings.buildkitDiskBytes };
  return { ...given, replicasPerSeat, maxScratchBytes, storage, overrides, images };
}
