import path from "node:path";
import * as z from "zod/mini";
import { existsSync, readFileSync, statSync } from "node:fs";
import type { Settings } from "../../config/setting-keys.ts";
import { parse } from "yaml";

/** How to reach the API of a cluster, and as whom. */
export type ClusterAccess = {
  /** Always https. */
  readonly server: URL;
  readonly tls: ClusterTls;
  /** Read for each request, because tokens are renewed; null with a client certificate. */
  readonly token: () => string | null;
  readonly namespace: string;
};

type ClusterTls = {
  /** PEM, as below; absent for the authorities that Node trusts. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** The name in the server's certificate, if it is not that of its address. */
  readonly servername?: string;
  readonly rejectUnauthorized: boolean;
};

/** Where Kubernetes mounts the service account of a pod. */
const ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Uses the kubeconfig of the settings, or else the service account of this pod. */
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
    // Kubernetes renews the file long before its token expires.
    token: () => read("token"),
    namespace: read("namespace"),
  };
}

const text = z.string().check(z.minLength(1), z.maxLength(262_144));
const name = z.string().check(z.maxLength(1_024));
const CONTEXT = z.object({ cluster: name, user: name, namespace: z.optional(name) });

const CLUSTER = z.object({
  server: text,
  "certificate-authority": z.optional(text),
  "certificate-authority-data": z.optional(text),
  "insecure-skip-tls-verify": z.optional(z.boolean()),
  "tls-server-name": z.optional(text),
  "proxy-url": z.optional(z.string()),
});

const USER = z.object({
  "client-certificate": z.optional(text),
  "client-certificate-data": z.optional(text),
  "client-key": z.optional(text),
  "client-key-data": z.optional(text),
  token: z.optional(text),
  tokenFile: z.optional(text),
  username: z.optional(z.string()),
  exec: z.optional(z.unknown()),
  "auth-provider": z.optional(z.unknown()),
  as: z.optional(z.string()),
});

const CONFIG = z.object({
  "current-context": text,
  clusters: z.array(z.object({ name, cluster: CLUSTER })).check(z.maxLength(1_000)),
  contexts: z.array(z.object({ name, context: CONTEXT })).check(z.maxLength(1_000)),
  users: z.array(z.object({ name, user: z.nullish(USER) })).check(z.maxLength(1_000)),
});

type User = z.infer<typeof USER>;
type Cluster = z.infer<typeof CLUSTER>;

const MAX_BYTES = 4 * 1024 * 1024;
const NO_EXEC =
  "a service runs no programs to sign in. Make a service account with the role in packaging/kubernetes/, and write a kubeconfig with its token";

/** Reads the current context of a kubeconfig file. Errors name the file. */
export function readKubeconfig(file: string): ClusterAccess {
  try {
    return accessOf(readConfig(file), path.dirname(file));
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message}`, { cause: error });
  }
}

function readConfig(file: string): z.infer<typeof CONFIG> {
  if (statSync(file).size > MAX_BYTES) throw new Error("too large for a kubeconfig");
  const parsed = CONFIG.safeParse(parse(readFileSync(file, "utf8")));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Error(`no kubeconfig: ${issue?.path.join(".")}: ${issue?.message}`);
}

function accessOf(config: z.infer<typeof CONFIG>, folder: string): ClusterAccess {
  const current = config["current-context"];
  const context = named(config.contexts, current, "context").context;
  const { cluster } = named(config.clusters, context.cluster, "cluster");
  const user = named(config.users, context.user, "user").user ?? {};
  refuseUnsupported(user, cluster);
  const server = URL.parse(cluster.server);
  if (server?.protocol !== "https:") throw new Error(`the server must begin with https://`);
  return {
    server,
    tls: tlsOf(cluster, user, folder),
    token: tokenOf(user, folder),
    namespace: context.namespace || "default",
  };
}

function named<T extends { readonly name: string }>(items: readonly T[], wanted: string, what: string): T {
  const found = items.find((item) => item.name === wanted);
  if (!found) throw new Error(`there is no ${what} named "${wanted}"`);
  return found;
}

function refuseUnsupported(user: User, cluster: Cluster): void {
  if (user.exec !== undefined) throw new Error(`the user has an exec plugin, and ${NO_EXEC}`);
  if (user["auth-provider"] !== undefined) throw new Error(`the user has an auth-provider, and ${NO_EXEC}`);
  if (user.username !== undefined) throw new Error("a password is no longer accepted by Kubernetes");
  if (user.as !== undefined) throw new Error("impersonation (as) is not supported");
  if (cluster["proxy-url"]) throw new Error("proxy-url is not supported");
}

function tlsOf(cluster: Cluster, user: User, folder: string): ClusterTls {
  const pem = (data: string | undefined, file: string | undefined): string | undefined => {
    if (data !== undefined) return Buffer.from(data, "base64").toString("utf8");
    return file === undefined ? undefined : readFileSync(path.resolve(folder, file), "utf8");
  };
  const found = {
    ca: pem(cluster["certificate-authority-data"], cluster["certificate-authority"]),
    cert: pem(user["client-certificate-data"], user["client-certificate"]),
    key: pem(user["client-key-data"], user["client-key"]),
    servername: cluster["tls-server-name"],
  };
  return {
    ...Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)),
    rejectUnauthorized: cluster["insecure-skip-tls-verify"] !== true,
  };
}

function tokenOf({ token, tokenFile }: User, folder: string): () => string | null {
  if (tokenFile === undefined) return () => token ?? null;
  return () => readFileSync(path.resolve(folder, tokenFile), "utf8").trim();
}
