import { findUv, probePip } from "../../../apps/builds/installer.ts";
import type { Settings } from "../../../config/setting-keys.ts";
import { findContainerTool, hasKnownHoles } from "../../../host/containers/container-tool.ts";
import { hostPythons } from "../../../host/host-pythons.ts";
import { findInterpreter } from "../../../host/interpreter.ts";
import { mayHaveGpus } from "../../../host/gpus/driver-files.ts";
import { guestEnforcement, lookAtLimits } from "../../../host/limits/host-limits.ts";
import { describeEnforced, type Enforcement, LIMITS } from "../../../host/limits/limits.ts";
import { hostReads } from "../../../host/walls/host-reads.ts";
import { networkReport } from "../../../host/walls/network.ts";
import { type CudaStart, hasNvidia, probeCuda, probeLevels } from "../../../host/walls/probes.ts";
import { complaintAbout, findGap, lackOf } from "../../../host/walls/require-walls.ts";
import { closesGpus, highestLevel, type Offer, type WallLevel } from "../../../host/walls/walls.ts";
import { fail, type Finding, ok, warn } from "./finding.ts";

/** The same as `engines` in package.json. */
const OLDEST_NODE = [22, 18] as const;

/** The service runs on a Node that it was made for. */
export function checkNode(version: string): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isOld = major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
  if (isOld) return fail("node", `${version} is too old`, `install Node ${OLDEST_NODE.join(".")} or newer`);
  return ok("node", version);
}

/** Apps have an interpreter, those that ask for a version of their own have it, and builds can install packages. */
export async function checkPythons({ python }: Settings, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const found = await findInterpreter(python).catch((error: Error) => error);
  return [
    found instanceof Error
      ? fail("python", found.message, "install Python 3.9 or newer, or set MILLRACE_PYTHON")
      : ok("python", `${found.version} at ${found.path}`),
    await checkVersions(env),
    await checkPackages(found instanceof Error ? null : found.path, env),
  ];
}

async function checkVersions(env: NodeJS.ProcessEnv): Promise<Finding> {
  const versions = (await hostPythons(env)).map(({ version }) => version);
  if (versions.length > 0) return ok("python versions", versions.join(", "));
  const remedy =
    "if apps set python_version, install those versions, for example with: uv python install 3.12";
  return warn("python versions", "no other version, such as python3.12, was found", remedy);
}

async function checkPackages(python: string | null, env: NodeJS.ProcessEnv): Promise<Finding> {
  const check = "packages";
  const variables = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value ?? ""]));
  const uv = await findUv(env["PATH"] ?? "", variables);
  if (uv !== null) return ok(check, `installed by ${uv}`);
  const { pip, bundled } = python === null ? { pip: null, bundled: null } : await probePip(python, variables);
  if (pip !== null) return ok(check, `installed by pip ${pip}`);
  if (bundled !== null) return ok(check, "installed by the pip that comes with Python");
  const problem = "neither uv nor pip is installed: each build downloads pip from the package index";
  const remedy = "install uv, or pip for Python (on Debian: apt-get install python3-pip python3-venv)";
  return warn(check, problem, remedy);
}

/** The isolation that this host supports. */
type HostWalls = {
  /** Null if there is no Python to try it with. */
  readonly python: string | null;
  readonly offer: Offer | null;
  /** The level of apps; null for none, or if the service would not start. */
  readonly level: WallLevel | null;
};

export async function lookAtWalls(
  { isolation, python, dataDir, uidRange }: Settings,
  env: NodeJS.ProcessEnv,
): Promise<HostWalls> {
  const found = await findInterpreter(python).catch(() => null);
  if (!found) return { python: null, offer: null, level: null };
  const seen = { dataDir, reads: hostReads(env, dataDir), user: uidRange.first };
  const offer = await probeLevels({ ...seen, python: found.path });
  const isRefused = isolation !== "auto" && isolation !== "none" && complaintAbout(isolation, offer) !== null;
  return { python: found.path, offer, level: isolation === "none" || isRefused ? null : highestLevel(offer) };
}

/** What separates an app from the machine, and what this host could put between them. */
export function checkSandbox({ isolation }: Settings, { offer }: HostWalls): Finding {
  const check = "sandbox";
  const care = "deploy only code that you would run yourself under this user; see SECURITY.md";
  const highest = offer && highestLevel(offer);
  const message = "none: an app can do whatever the service's user can";
  if (isolation === "none") {
    const better = highest ? `set MILLRACE_ISOLATION=auto, which gives ${highest} on this host; or ` : "";
    return warn(check, message, better + care);
  }
  if (isolation === "auto") {
    if (highest) return ok(check, highest);
    const why = offer ? lackOf(offer) : "there is no Python to raise walls";
    return warn(check, `${message}, because ${why}`, care);
  }
  const complaint = offer
    ? complaintAbout(isolation, offer)
    : `MILLRACE_ISOLATION=${isolation}, but there is no Python to do it`;
  if (complaint !== null || !highest) return fail(check, complaint ?? message, care);
  return ok(check, highest === isolation ? highest : `${highest} (at least ${isolation} is required)`);
}

/** Which limits apps are held to, as the running service found them; without one, as found from here. */
export async function checkLimits(
  settings: Settings,
  { level }: HostWalls,
  found: Enforcement | undefined,
): Promise<Finding> {
  const check = "limits";
  if (settings.engine === "kubernetes")
    return ok(check, "apps run on Kubernetes, which holds each pod to the memory, cpu and disk of its spec");
  const enforcement =
    settings.engine === "ray"
      ? guestEnforcement(settings, "Ray")
      : (found ?? (await lookAtLimits(settings, level)));
  const where = settings.engine === "ray" ? "apps run on Ray: " : "";
  const remedies = new Set<string>();
  const told = LIMITS.map((name) => {
    const enforced = enforcement[name];
    const called = name.replace("_", " ");
    if (!("lacking" in enforced)) return `${called}: ${describeEnforced(enforced)}`;
    remedies.add(enforced.remedy);
    return `${called}: not enforced (${enforced.lacking})`;
  });
  const message = where + told.join("; ");
  return remedies.size === 0 ? ok(check, message) : warn(check, message, [...remedies].join(". "));
}

/** What of an app's `network` this host enforces, behind the level that is set. */
export async function checkNetwork(settings: Settings, { python, level }: HostWalls): Promise<Finding> {
  const check = "network";
  const gap = await findGap(level, python ?? settings.python, settings);
  const { true: judged } = networkReport({ hasWalls: level !== null, gap });
  const closed = "no app reaches the management API, metadata services or other apps' servers";
  if (gap === null) return ok(check, `${judged}: ${closed}`);
  const remedy =
    'apps can connect to whatever this machine can; `network = "egress"` is refused unless MILLRACE_NETWORK_UNENFORCED=warn';
  return warn(check, judged, remedy);
}

/** The names of the parts of the isolation in documents. */
const WALL_NAMES: Readonly<Record<string, string>> = {
  landlock: "Landlock",
  namespaces: "the namespaces",
  privileges: "the user without privileges",
  seccomp: "the seccomp filter",
};

/** CUDA starts behind the level that is set, where there is an NVIDIA GPU: only trying it tells. */
export async function checkCuda(
  { dataDir, uidRange }: Settings,
  { python, level }: HostWalls,
  env: NodeJS.ProcessEnv,
): Promise<Finding> {
  if (!mayHaveGpus()) return ok("cuda", "this machine has no NVIDIA GPU");
  if (!hasNvidia()) return warn("cuda", "not tried: there is no /dev/nvidiactl", "see docs/gpus.md");
  if (python === null) return warn("cuda", "not tried: there is no Python to try it with", "install Python");
  const host = { python, dataDir, reads: hostReads(env, dataDir), user: uidRange.first };
  const gap = level && (await findGap(level, python, { dataDir, uidRange }));
  const started = await probeCuda(host, level, { hasNotifier: gap === null, env }).catch(
    (error: Error) => error,
  );
  if (started instanceof Error) return warn("cuda", `not tried: ${started.message}`, "see docs/gpus.md");
  return describeCuda(started, level, gap);
}

/** What `doctor` says of how CUDA starts. */
export function describeCuda(
  { bare, walled, walls }: CudaStart,
  level: WallLevel | null,
  gap: string | null,
): Finding {
  const driver =
    "check the driver: nvidia-smi must work for the service's user, and /dev/nvidia-uvm must exist";
  if (bare !== null)
    return fail("cuda", `does not start on this machine, even without isolation: ${bare}`, driver);
  if (walled === null && !closesGpus(level)) {
    const open = `starts ${level === null ? "without isolation" : `behind ${level}`}, but every app can open every GPU`;
    return warn(
      "cuda",
      open,
      "from the level landlock on, apps can open only the GPUs that they were granted",
    );
  }
  if (walled === null) return ok("cuda", `starts behind ${level}`);
  const culprits =
    walls.map((name) => WALL_NAMES[name] ?? name).join(" and ") || "several of its parts together";
  const problem = `starts on this machine, but not behind ${level}: ${walled}. What stops it: ${culprits}`;
  return fail("cuda", problem, gap === null ? "see docs/gpus.md" : `see docs/gpus.md; on this host ${gap}`);
}

const UNSAFE_PODMAN =
  "let only those deploy whom you trust with this host; or update podman to 5.3.2 or newer, or unset MILLRACE_CONTAINER_ENGINE";

/** What builds and runs the images of apps that need one. */
export async function checkImages(
  { containerEngine, engine, registry }: Settings,
  env: NodeJS.ProcessEnv,
): Promise<Finding> {
  const check = "images";
  if (engine === "kubernetes") {
    if (registry !== null) return ok(check, `built in the cluster, for ${registry}`);
    const remedy = "if apps need images, have them built in the cluster: see docs/kubernetes.md";
    return warn(check, "apps with a Dockerfile cannot be deployed: MILLRACE_REGISTRY is unset", remedy);
  }
  const found = await findContainerTool(containerEngine, env);
  if ("tool" in found) {
    const { kind, version, isRootless, runtimes } = found.tool;
    const told = `${kind} ${version}${isRootless ? ", rootless" : ""} (${runtimes.join(", ")})`;
    if (!hasKnownHoles(found.tool)) return ok(check, told);
    const power = isRootless ? "do whatever the service's user can" : "become root on this host";
    return warn(check, `${told}: a Dockerfile can ${power}, by known faults of its builds`, UNSAFE_PODMAN);
  }
  const message = `apps with a Dockerfile cannot be deployed: ${found.lack}`;
  if (containerEngine === "none") return ok(check, message);
  return warn(check, message, "if apps need images, install podman 5.3.2 or newer, or Docker");
}
