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
  try {
    // Read only where it is needed: it takes a tenth of a second.
    const { findCluster } = await import("../host/kubernetes/find-cluster.ts");
    api = new KubernetesApi(findCluster(settings, env));
  } catch (error) {
    return [fail(CHECK, (error as Error).message, "set MILLRACE_KUBERNETES_CONFIG to a kubeconfig file")];
  }
  try {
    return [...checkImage(settings), ...(await checkPermissions(api))];
  } catch (error) {
    return [fail(CHECK, `${api.address}: ${describeTrouble(error)}`, REACH)];
  } finally {
    api.close();
  }
}

function checkImage({ kubernetesImage }: Settings): Finding[] {
  if (kubernetesImage !== null) return [];
  const remedy = "set MILLRACE_KUBERNETES_IMAGE, see docs/kubernetes.md";
  return [fail(CHECK, "no worker image is named", remedy)];
}

async function checkPermissions(api: KubernetesApi): Promise<Finding[]> {
  const missing: Finding[] = [];
  for (const permission of PERMISSIONS) {
    if (await isAllowed(api, permission)) continue;
    const what = `may not ${describePermission(permission)} in namespace ${api.namespace}`;
    missing.push(fail(CHECK, what, `grant it to the service's account: packaging/kubernetes/role.yaml`));
  }
  if (missing.length > 0) return missing;
  return [ok(CHECK, `${api.address}, namespace ${api.namespace}: all ${PERMISSIONS.length} permissions`)];
}
