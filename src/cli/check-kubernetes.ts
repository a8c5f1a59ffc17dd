import type { Settings } from "../config/setting-keys.ts";
import { KubernetesApi, describeTrouble } from "../host/kubernetes/api.ts";
import { PERMISSIONS, describePermission, isAllowed } from "../host/kubernetes/permissions.ts";
import { fail, ok } from "./finding.ts";
import type { Finding } from "./finding.ts";

const CHECK = "kubernetes";
const REACH = "check the address and credentials in MILLRACE_KUBERNETES_CONFIG, and that the cluster runs";

/** The cluster answers, and the service may do there all that it does; each permission is asked for by itself. */
export async function checkKubernetes(settings: Settings, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  if (settings.engine !== "kubernetes") return [ok(CHECK, `not used: MILLRACE_ENGINE is ${settings.engine}`)];
  let api: KubernetesApi;
  let builds: KubernetesApi;
  try {
    // Read only where it is needed: it takes a tenth of a second.
    const { findCluster } = await import("../host/kubernetes/find-cluster.ts");
    const access = findCluster(settings, env);
    api = new KubernetesApi(access);
    builds = new KubernetesApi({ ...access, namespace: settings.buildkitNamespace ?? access.namespace });
  } catch (error) {
    return [fail(CHECK, (error as Error).message, "set MILLRACE_KUBERNETES_CONFIG to a kubeconfig file")];
  }
  try {
    return [
      ...checkImage(settings),
      ...(await checkPermissions(api)),
      ...(await checkImageBuilds(settings, builds, api.namespace)),
    ];
  } catch (error) {
    return [fail(CHECK, `${api.address}: ${describeTrouble(error)}`, REACH)];
  } finally {
    api.close();
    builds.close();
  }
}

/** The cluster is asked whether it would admit a pod that builds an image. */
async function checkImageBuilds(
  settings: Settings,
  api: KubernetesApi,
  mainNamespace: string,
): Promise<Finding[]> {
  if (settings.registry === null) return [];
  const { namespace } = api;
  const missing = namespace === mainNamespace ? [] : await missingPermissions(api, "images.yaml");
  if (missing.length > 0) return missing;
  const { refusalOfImagePod } = await import("../replicas/try-image-pod.ts");
  const refusal = await refusalOfImagePod(api, settings, "3");
  if (refusal === null)
    return [ok(CHECK, `builds images for ${settings.registry} in namespace ${namespace}`)];
  const remedy =
    "build images in a namespace that admits privileged pods: packaging/kubernetes/images.yaml, MILLRACE_BUILDKIT_NAMESPACE";
  return [fail(CHECK, `namespace ${namespace} admits no pods that build images: ${refusal}`, remedy)];
}

function checkImage({ kubernetesImage }: Settings): Finding[] {
  if (kubernetesImage !== null) return [];
  const remedy = "set MILLRACE_KUBERNETES_IMAGE, see docs/kubernetes.md";
  return [fail(CHECK, "no worker image is named", remedy)];
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
