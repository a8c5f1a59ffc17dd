import type { ImageTools } from "../build-seats.ts";
import { BUILDKIT } from "./labels.ts";

/** What the pods that build images have in common. */
export type ImagePodParts = {
  /** Of BuildKit, a rootless one. */
  readonly image: string;
  /** The Secret that opens the registry; null for none. */
  readonly secret: string | null;
  /** The ConfigMap with BuildKit's own settings, if there is one of that name. */
  readonly config: string;
  readonly diskBytes: number;
};

/** The parts of a seat's pod that change if BuildKit runs beside its agent. */
type SeatSpec = {
  readonly securityContext: object;
  readonly containers: readonly { readonly volumeMounts: readonly object[] }[];
  readonly volumes: readonly SeatVolume[];
};
type SeatVolume = { readonly name: string; readonly secret?: object };

/** The user of BuildKit's image. The agent is that user too in such a pod: the socket between them is open to no other. */
const USER = 1_000;
const HOME = "/home/user";
const TOOLS = { name: "tools", mountPath: "/opt/buildkit" };
const SOCKET = { name: "socket", mountPath: "/run/buildkit" };
const LOGINS = { name: "logins", mountPath: "/run/logins" };
const CONFIG = { name: "config", mountPath: "/etc/buildkit" };
/** The cluster names it when it ends a pod that uses more. */
const DISK = "millrace-buildkit-disk";
const ADDRESS = `unix://${SOCKET.mountPath}/buildkitd.sock`;
const NO_GROUP = { fsGroup: undefined, fsGroupChangePolicy: undefined };
const LITTLE = "1Gi";
/** Of the containers beside BuildKit: one copies a program, the other runs it. */
const FEW_RESOURCES = { limits: { memory: "1Gi" }, requests: { cpu: "50m", memory: "128Mi" } };
/** How long BuildKit may take to be ready, in seconds, before it is started again. */
const READY_SECONDS = 120;

/** Where the agent of such a pod finds what it needs. */
export function imageTools({ secret }: ImagePodParts, agentDir: string): ImageTools {
  return {
    script: `${agentDir}/millrace_agent/image.py`,
    buildctl: `${TOOLS.mountPath}/buildctl`,
    address: ADDRESS,
    logins: secret === null ? null : `${LOGINS.mountPath}/config.json`,
    certificates: CONFIG.mountPath,
  };
}

/**
 * A seat's pod with BuildKit beside the agent, in a container of its own: that alone is less than restricted. It sees
 * neither the seat's ticket nor what opens the registry, which are mounted for the agent only, and it ends with the agent.
 */
export function besideBuildKit(
  spec: SeatSpec,
  parts: ImagePodParts,
  { resources, walls }: { readonly resources: object; readonly walls: object },
): object {
  const { securityContext, containers, volumes } = spec;
  const little = { emptyDir: { sizeLimit: LITTLE } };
  return {
    ...spec,
    // It needs more users than a pod with a user namespace of its own has.
    hostUsers: undefined,
    // Without `fsGroup`, by which folders of images would get a bit that makes files belong to its group.
    securityContext: { ...securityContext, runAsUser: USER, runAsGroup: USER, ...NO_GROUP },
    initContainers: [toolBringer(parts, walls), buildkitd(parts, resources)],
    containers: containers.map((each) => ({
      ...each,
      resources: FEW_RESOURCES,
      volumeMounts: [
        ...each.volumeMounts,
        { ...TOOLS, readOnly: true },
        SOCKET,
        ...(parts.secret === null ? [] : [{ ...LOGINS, readOnly: true }]),
        { ...CONFIG, readOnly: true },
      ],
    })),
    volumes: [
      ...volumes.map(openToAll),
      { name: TOOLS.name, ...little },
      { name: SOCKET.name, ...little },
      { name: DISK, emptyDir: { sizeLimit: String(parts.diskBytes) } },
      { name: "runtime", ...little },
      { name: "temporary", ...little },
      ...(parts.secret === null ? [] : [loginsVolume(parts.secret)]),
      { name: CONFIG.name, configMap: { name: parts.config, optional: true } },
    ],
  };
}

/** Without a group of the pod's own, a secret is its owner's alone unless it is everybody's: of the agent's container. */
function openToAll(volume: SeatVolume): object {
  return volume.secret ? { ...volume, secret: { ...volume.secret, defaultMode: 0o444 } } : volume;
}

function loginsVolume(secretName: string): object {
  const items = [{ key: ".dockerconfigjson", path: "config.json" }];
  // A pod whose secret is missing would wait without a word; the program in it says so.
  return { name: LOGINS.name, secret: { secretName, items, defaultMode: 0o444, optional: true } };
}

/** The agent's image has no buildctl. */
function toolBringer({ image }: ImagePodParts, walls: object): object {
  return {
    name: "buildctl",
    image,
    imagePullPolicy: "IfNotPresent",
    command: ["cp", "/usr/bin/buildctl", `${TOOLS.mountPath}/`],
    terminationMessagePolicy: "FallbackToLogsOnError",
    resources: FEW_RESOURCES,
    securityContext: walls,
    volumeMounts: [TOOLS],
  };
}

/** A sidecar: the agent starts when it is ready, and it ends when the agent has. */
function buildkitd({ image, config }: ImagePodParts, resources: object): object {
  return {
    name: BUILDKIT,
    image,
    imagePullPolicy: "IfNotPresent",
    restartPolicy: "Always",
    command: [
      "rootlesskit",
      "buildkitd",
      "--addr",
      ADDRESS,
      // The cluster hides parts of /proc, so that there can be no other. Whatever runs here is one build's.
      "--oci-worker-no-process-sandbox",
      ...(config === null ? [] : ["--config", `${CONFIG.mountPath}/buildkitd.toml`]),
    ],
    env: [
      { name: "HOME", value: HOME },
      { name: "USER", value: "user" },
      { name: "XDG_RUNTIME_DIR", value: `/run/user/${USER}` },
      { name: "TMPDIR", value: "/tmp" },
    ],
    // Why it could not start is in what it printed last.
    terminationMessagePolicy: "FallbackToLogsOnError",
    startupProbe: {
      exec: { command: ["buildctl", "--addr", ADDRESS, "debug", "workers"] },
      periodSeconds: 1,
      timeoutSeconds: 10,
      failureThreshold: READY_SECONDS,
    },
    resources,
    securityContext: {
      // It makes a user namespace, with newuidmap, and mounts file systems in it: the usual profiles refuse both.
      allowPrivilegeEscalation: true,
      capabilities: { drop: ["ALL"], add: ["SETUID", "SETGID"] },
      seccompProfile: { type: "Unconfined" },
      appArmorProfile: { type: "Unconfined" },
      readOnlyRootFilesystem: true,
    },
    volumeMounts: [
      SOCKET,
      { name: DISK, mountPath: `${HOME}/.local/share/buildkit` },
      { name: "runtime", mountPath: `/run/user/${USER}` },
      { name: "temporary", mountPath: "/tmp" },
      ...(config === null ? [] : [{ ...CONFIG, readOnly: true }]),
    ],
  };
}
