import { once } from "node:events";
import { createServer, type Server } from "node:net";
import type { Settings } from "../../../config/setting-keys.ts";
import {
  describePermission,
  describeTrouble,
  isAllowed,
  KubernetesApi,
  PERMISSIONS,
} from "../../../engines/kubernetes/api.ts";
import { describeRayTrouble, type JobsApi, openJobsApi, whyTooOld } from "../../../engines/ray/jobs-api.ts";
import { findInterpreter } from "../../../host/interpreter.ts";
import type { StandingWalls } from "../../../host/walls/walls.ts";
import { systemClock } from "../../../kit/clock.ts";
import { listenAt } from "../../../nodes/peer-listener.ts";
import { fail, type Finding, ok, warn } from "./finding.ts";

const CHECK = "kubernetes";
const REACH = "check the address and credentials in MILLRACE_KUBERNETES_CONFIG, and that the cluster runs";

/** The cluster answers, grants every permission that the service needs, and runs a pod of the worker image. */
export async function checkKubernetes(settings: Settings, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  if (settings.engine !== "kubernetes") return [ok(CHECK, `not used: MILLRACE_ENGINE is ${settings.engine}`)];
  let api: KubernetesApi;
  let builds: KubernetesApi;
  try {
    // Loading it takes a tenth of a second.
    const { findCluster } = await import("../../../engines/kubernetes/cluster-access.ts");
    const access = findCluster(settings, env);
    api = new KubernetesApi(access);
    builds = new KubernetesApi({ ...access, namespace: settings.buildkitNamespace ?? access.namespace });
  } catch (error) {
    return [fail(CHECK, (error as Error).message, "set MILLRACE_KUBERNETES_CONFIG to a kubeconfig file")];
  }
  try {
    const permissions = await checkPermissions(api);
    const mayTry = permissions.every(({ status }) => status === "ok");
    return [
      ...checkSettings(settings),
      ...permissions,
      ...(mayTry ? await checkWorker(settings, api) : []),
      ...(await checkImageBuilds(settings, builds, api.namespace)),
    ];
  } catch (error) {
    return [fail(CHECK, `${api.address}: ${describeTrouble(error)}`, REACH)];
  } finally {
    api.close();
    builds.close();
  }
}

/** Asks the cluster whether it would admit a pod that builds an image. */
async function checkImageBuilds(
  settings: Settings,
  api: KubernetesApi,
  mainNamespace: string,
): Promise<Finding[]> {
  if (settings.registry === null) return [];
  const { namespace } = api;
  const missing = namespace === mainNamespace ? [] : await missingPermissions(api, "images.yaml");
  if (missing.length > 0) return missing;
  const { refusalOfImagePod } = await import("../../../engines/kubernetes/try-pods.ts");
  const refusal = await refusalOfImagePod(api, settings, "3");
  if (refusal === null)
    return [ok(CHECK, `builds images for ${settings.registry} in namespace ${namespace}`)];
  const remedy =
    "build images in a namespace that admits privileged pods: packaging/kubernetes/images.yaml, MILLRACE_BUILDKIT_NAMESPACE";
  return [fail(CHECK, `namespace ${namespace} admits no pods that build images: ${refusal}`, remedy)];
}

function checkSettings({ kubernetesImage, seatUrl }: Settings): Finding[] {
  const see = "see docs/kubernetes.md";
  const image = fail(CHECK, "no worker image is named", `set MILLRACE_KUBERNETES_IMAGE, ${see}`);
  const address = fail(CHECK, "no address for pods is named", `set MILLRACE_SEAT_URL, ${see}`);
  return [...(kubernetesImage === null ? [image] : []), ...(seatUrl === null ? [address] : [])];
}

/** Starts a pod of the worker image: it has what the agent needs, and reaches this machine. */
async function checkWorker(settings: Settings, api: KubernetesApi): Promise<Finding[]> {
  const { kubernetesImage, seatUrl, seatServiceUrl, seatPort } = settings;
  if (kubernetesImage === null || seatUrl === null) return [];
  const { tryWorkerPod } = await import("../../../engines/kubernetes/try-pods.ts");
  const { version: python } = await findInterpreter(settings.python);
  // Without a service, doctor listens in its place. The address of all services may then lead to another one.
  const standIn = await listen(listenAt(seatUrl, seatPort));
  const urls = standIn || seatServiceUrl === null ? [seatUrl] : [seatUrl, seatServiceUrl];
  const addresses = urls.map((url) => new URL(url).host);
  try {
    const tried = await tryWorkerPod({ api, settings, python, addresses, clock: systemClock });
    const { image } = tried;
    if (tried.kind === "fine")
      return [ok(CHECK, `a pod of ${image} has all that it needs, and reaches ${addresses.join(" and ")}`)];
    const remedy = `make the image as docs/kubernetes.md says, and let pods reach ${addresses.join(" and ")}`;
    const message = `a pod of ${image} was tried: ${tried.why}`;
    return [tried.kind === "late" ? warn(CHECK, message, remedy) : fail(CHECK, message, remedy)];
  } finally {
    standIn?.close();
  }
}

/** Takes connections and says nothing; null where a service has the port. */
async function listen(at: { readonly host: string; readonly port: number }): Promise<Server | null> {
  const server = createServer((socket) => socket.destroy());
  try {
    server.listen(at.port, at.host);
    await once(server, "listening");
    return server;
  } catch {
    return null;
  }
}

async function checkPermissions(api: KubernetesApi): Promise<Finding[]> {
  const missing = await missingPermissions(api, "role.yaml");
  if (missing.length > 0) return missing;
  return [ok(CHECK, `${api.address}, namespace ${api.namespace}: all ${PERMISSIONS.length} permissions`)];
}

async function missingPermissions(api: KubernetesApi, file: string): Promise<Finding[]> {
  const missing: Finding[] = [];
  for (const permission of PERMISSIONS) {
    if (await isAllowed(api, permission)) continue;
    const what = `may not ${describePermission(permission)} in namespace ${api.namespace}`;
    missing.push(fail(CHECK, what, `grant it to the service's account: packaging/kubernetes/${file}`));
  }
  return missing;
}

/** The cluster answers, takes our token, and is new enough. `walls` are the weakest that a running service saw there. */
export async function checkRay(settings: Settings, walls: StandingWalls | null = null): Promise<Finding> {
  if (settings.engine !== "ray") return ok("ray", `not used: MILLRACE_ENGINE is ${settings.engine}`);
  try {
    return await checkCluster(openJobsApi(settings), walls);
  } catch (error) {
    return fail("ray", (error as Error).message, "set MILLRACE_RAY_ADDRESS, see docs/ray.md");
  }
}

async function checkCluster(api: JobsApi, walls: StandingWalls | null): Promise<Finding> {
  try {
    const version = await api.version();
    // The version needs no token; a cluster with tokens shows its jobs only with one.
    await api.look("millrace-doctor");
    const problem = whyTooOld(version);
    if (problem !== null) return fail("ray", `${api.address}: ${problem}`, "update Ray on every node");
    return judge(`${api.address}: Ray ${version}`, walls);
  } catch (error) {
    const remedy = "check MILLRACE_RAY_ADDRESS, the token, and that the cluster's dashboard runs";
    return fail("ray", `${api.address}: ${describeRayTrouble(error)}`, remedy);
  }
}

function judge(cluster: string, walls: StandingWalls | null): Finding {
  if (!walls) return ok("ray", cluster);
  const { level, gap } = walls;
  const care = "let only those deploy whom you trust with the whole cluster; see docs/ray.md";
  const told = `${cluster}; isolation of apps there: ${level}`;
  if (level === "none")
    return warn("ray", `${told}, so that each can do whatever Ray's user can (${gap})`, care);
  if (gap === null) return ok("ray", told);
  return warn("ray", `${told}, but they can connect to Ray itself: ${gap}`, care);
}
