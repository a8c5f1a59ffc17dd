import type { ImageTools } from "../build-seats.ts";
import { BUILDKIT } from "./labels.ts";

export type ImagePodParts = {
  readonly image: string;
  /** The Secret with credentials for the registry; null for none. */
  readonly secret: string | null;
  /** The ConfigMap with BuildKit's own settings, if there is one of that name. */
  readonly config: string;
  readonly diskBytes: number;
};

/** The parts of a seat's pod that change if BuildKit runs beside its agent. */
type SeatSpec = {
  readonly securityContext: object;
  readonly containers: readonly { readonly volumeMounts: readonly object[] }[];
  readonly volumes: readonly { readonly name: string; readonly secret?: object }[];
};

/** The user of BuildKit's image. The agent runs as the same user: the socket between them is private. */
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
/** For the containers beside BuildKit: one copies a program, the other runs it. */
const FEW_RESOURCES = { limits: { memory: "1Gi" }, requests: { cpu: "50m", memory: "128Mi" } };
/** How long BuildKit may take to be ready before it is restarted. */
const READY_SECONDS = 120;

/** The paths that the agent of such a pod uses. */
export function imageTools({ secret }: ImagePodParts, agentDir: string): ImageTools {
  return {
    script: `${agentDir}/millrace_agent/image.py`,
    buildctl: `${TOOLS.mountPath}/buildctl`,
    address: ADDRESS,
    logins: secret === null ? null : `${LOGINS.mountPath}/config.json`,
    certificates: CONFIG.mountPath,
  };
}

/** Adds BuildKit, the only container that is less than restricted. It sees neither the ticket nor the registry's credentials. */
export function besideBuildKit(
  spec: SeatSpec,
  parts: ImagePodParts,
  { resources, walls }: { readonly resources: object; readonly walls: object },
): object {
  const { securityContext, containers, volumes } = spec;
  const little = { emptyDir: { sizeLimit: LITTLE } };
  return {
    ...spec,
    // BuildKit needs more users than a pod with its own user namespace has.
    hostUsers: undefined,
    // Without `fsGroup`, which would set the setgid bit on folders of images.
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
      // Without `fsGroup`, only root can read a secret unless all users may. It is mounted for the agent alone.
      ...volumes.map(({ secret, ...each }) =>
        secret ? { ...each, secret: { ...secret, defaultMode: 0o444 } } : each,
      ),
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

function loginsVolume(secretName: string): object {
  const items = [{ key: ".dockerconfigjson", path: "config.json" }];
  // Without `optional`, a pod whose secret is missing would wait without an explanation.
  return { name: LOGINS.name, secret: { secretName, items, defaultMode: 0o444, optional: true } };
}

/** Copies buildctl, which the agent's image lacks. */
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

/** A sidecar: the agent starts when it is ready, and it ends after the agent. */
function buildkitd({ image }: ImagePodParts, resources: object): object {
  const program = ["rootlesskit", "buildkitd", "--addr", ADDRESS, "--oci-worker-no-process-sandbox"];
  return {
    name: BUILDKIT,
    image,
    imagePullPolicy: "IfNotPresent",
    restartPolicy: "Always",
    // The cluster hides parts of /proc, so a process sandbox is impossible. The pod serves a single build.
    command: [...program, "--config", `${CONFIG.mountPath}/buildkitd.toml`],
    env: [
      { name: "HOME", value: HOME },
      { name: "USER", value: "user" },
      { name: "XDG_RUNTIME_DIR", value: `/run/user/${USER}` },
      { name: "TMPDIR", value: "/tmp" },
    ],
    // Its last output explains a failed start.
    terminationMessagePolicy: "FallbackToLogsOnError",
    startupProbe: {
      exec: { command: ["buildctl", "--addr", ADDRESS, "debug", "workers"] },
      periodSeconds: 1,
      timeoutSeconds: 10,
      failureThreshold: READY_SECONDS,
    },
    resources,
    securityContext: {
      // It creates a user namespace and mounts file systems in it, which the default profiles forbid.
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
      { ...CONFIG, readOnly: true },
    ],
  };
}
