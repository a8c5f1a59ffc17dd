import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Settings } from "../../config/setting-keys.ts";
import type { ClusterAccess } from "./cluster-access.ts";
import { readKubeconfig } from "./kubeconfig.ts";

/** Where Kubernetes puts the account of a pod. */
const ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

/** By the kubeconfig of the settings, else by the account of the pod that this runs in. Throws in words for people. */
export function findCluster(
  { kubernetesConfig, kubernetesNamespace }: Settings,
  env: NodeJS.ProcessEnv,
  accountDir = ACCOUNT_DIR,
): ClusterAccess {
  const access = kubernetesConfig === null ? ofAccount(env, accountDir) : readKubeconfig(kubernetesConfig);
  return kubernetesNamespace === null ? access : { ...access, namespace: kubernetesNamespace };
}

function ofAccount(env: NodeJS.ProcessEnv, folder: string): ClusterAccess {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = "443" } = env;
  if (!host || !existsSync(path.join(folder, "token"))) {
    throw new Error(
      "MILLRACE_ENGINE=kubernetes, but this is no pod with a service account: set MILLRACE_KUBERNETES_CONFIG to a kubeconfig file",
    );
  }
  const read = (name: string): string => readFileSync(path.join(folder, name), "utf8").trim();
  return {
    server: new URL(`https://${host.includes(":") ? `[${host}]` : host}:${port}`),
    tls: { ca: read("ca.crt"), rejectUnauthorized: true },
    // Kubernetes replaces the file long before the token in it expires.
    token: () => read("token"),
    namespace: read("namespace"),
  };
}
