import { cpSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect } from "vitest";
import { MANIFESTS, renderChart } from "../../scripts/render-manifests.ts";
import { readKubeconfig } from "../../src/engines/kubernetes/cluster-access.ts";
import { scratchDirectory } from "../support/command-line.ts";
import { testDatabases } from "../support/databases.ts";
import { commandsOf, tryCommand } from "../support/document-commands.ts";
import { FULL_VALUES, LEAST_VALUES, hasHelm } from "../support/helm-chart.ts";
import { lastingWay } from "../support/kubernetes/lasting-way.ts";
import { processesOf } from "../support/kubernetes/pod-process.ts";
import { ServicePods } from "../support/kubernetes/service-pods.ts";
import { writeKubectl } from "../support/kubernetes/kubectl.ts";
import { TEST_CLUSTER, TestNamespace } from "../support/kubernetes/real-cluster.ts";
import { makeServiceImage } from "../support/kubernetes/service-image.ts";
import { SilentProxy } from "../support/silent-proxy.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();
const withHelm = hasHelm();

/** What the document has one type, in that order. */
const COMMANDS = [
  "kubectl create namespace millrace",
  "kubectl label namespace millrace pod-security.kubernetes.io/enforce=restricted",
  "(umask 077 && openssl rand -base64 32 > master.key)",
  'kubectl -n millrace create secret generic millrace --from-literal=database-url="$DATABASE_URL" --from-file=master-key=master.key --from-literal=access-key-id="$AWS_ACCESS_KEY_ID" --from-literal=secret-access-key="$AWS_SECRET_ACCESS_KEY"',
  "helm install millrace packaging/helm/millrace -n millrace -f values.yaml --wait",
  "kubectl -n millrace exec deploy/millrace -- bin/millrace doctor",
  "kubectl -n millrace exec deploy/millrace -- bin/millrace deploy examples/hello --yes",
  "kubectl -n millrace exec deploy/millrace -- bin/millrace call hello name=Ada",
  "kubectl -n millrace get pods",
  "helm upgrade millrace packaging/helm/millrace -n millrace -f values.yaml --wait",
  "helm uninstall millrace -n millrace --wait",
  "kubectl -n millrace delete configmap -l app.kubernetes.io/managed-by=millrace",
];

/** A folder as a clone is, for whoever types commands there, as the operator of the cluster. */
function terminal(more: Record<string, string> = {}) {
  const folder = scratchDirectory();
  cpSync(path.join(REPOSITORY, "packaging"), path.join(folder, "packaging"), { recursive: true });
  writeKubectl(folder);
  const env = {
    PATH: `${folder}:${process.env["PATH"]}`,
    HOME: folder,
    KUBECONFIG: TEST_CLUSTER?.kubeconfig ?? "",
    ...more,
  };
  return {
    folder,
    attempt: async (command: string) => await tryCommand(command, { cwd: folder, env }),
  };
}

describe.skipIf(!TEST_CLUSTER)("the chart on a cluster", () => {
  verifies("helm.renders", "the cluster takes what it renders", async () => {
    const { name } = await TestNamespace.make();
    const { folder, attempt } = terminal();
    const dryRun = async (objects: string): Promise<string> => {
      writeFileSync(path.join(folder, "objects.yaml"), objects);
      return await attempt("kubectl apply --dry-run=server -f objects.yaml 2>&1");
    };
    // Whatever the restricted profile would refuse of a pod is a warning here.
    await attempt(`kubectl label namespace ${name} pod-security.kubernetes.io/warn=restricted`);
    const plain = readFileSync(MANIFESTS, "utf8").replaceAll("namespace: millrace", `namespace: ${name}`);
    const told = [await dryRun(plain)];
    if (withHelm) {
      const images = { ...FULL_VALUES.images, namespace: (await TestNamespace.make()).name };
      const apps = { namespace: (await TestNamespace.make()).name };
      // This cluster has none of these kinds.
      const off = { enabled: false };
      const without = { podMonitor: off, serviceMonitor: off, prometheusRule: off, gateway: off };
      const values = { ...FULL_VALUES, ...without, images, apps, fullnameOverride: "millrace" };
      for (const each of [LEAST_VALUES, values])
        told.push(await dryRun(renderChart(each, { namespace: name })));
    }
    for (const each of told) {
      expect(each).toContain("deployment.apps/millrace created (server dry run)");
      expect(each).not.toContain("would violate PodSecurity");
    }
  });
});

// Where the services' own pods cannot have an image from, or are not on this machine, others try it by hand.
describe.skipIf(!TEST_CLUSTER?.folder || !withHelm)("docs/helm.md", () => {
  verifies(
    ["docs.blocks", "helm.update", "seats.service", "kubernetes.nothing-left"],
    "its commands lead from nothing to a call, through an update that fails none, to nothing",
    async () => {
      expect(commandsOf("docs/helm.md")).toEqual(COMMANDS);
      const [create = "", label = "", key = "", secret = "", install = "", doctor = "", ...rest] = COMMANDS;
      const [deploy = "", call = "", pods = "", upgrade = "", uninstall = "", remove = ""] = rest;
      const namespace = await TestNamespace.use("millrace");
      const { hostAddress, kubeconfig } = namespace.cluster;
      const { databaseUrl } = await databases.fresh("postgres");
      const database = await SilentProxy.open(databaseUrl ?? "", hostAddress);
      const { port } = readKubeconfig(kubeconfig).server;
      const api = await SilentProxy.openTo(Number(port), hostAddress);
      // This cluster has no names, by which pods of apps would find the Service of seats.
      const made = new ServicePods(namespace, "", "");
      const way = await lastingWay(hostAddress, async () => await made.address(), 4300);
      const config = { MILLRACE_SEAT_SERVICE_URL: way };
      const keys = { AWS_ACCESS_KEY_ID: "unused", AWS_SECRET_ACCESS_KEY: "unused" };
      const { folder, attempt } = terminal({ DATABASE_URL: database.url, ...keys });
      const values = {
        image: await makeServiceImage(),
        workerImage: namespace.cluster.workerImage,
        resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { memory: "1Gi" } },
        blobs: { claim: "blobs" },
        config,
        // This cluster has no address for its own API that pods reach.
        extraEnv: [{ name: "MILLRACE_KUBERNETES_CONFIG", value: "/etc/cluster/config" }],
        extraVolumes: [{ name: "cluster", configMap: { name: "cluster" } }],
        extraVolumeMounts: [{ name: "cluster", mountPath: "/etc/cluster" }],
      };
      const write = (more: object = {}): void =>
        writeFileSync(path.join(folder, "values.yaml"), JSON.stringify({ ...values, ...more }));
      write();
      for (const command of [create, label, key, secret]) await attempt(command);
      await namespace.claim("blobs");
      await namespace.create("api/v1", "configmaps", accessMap(api.url));
      await attempt(install);
      expect(await attempt(doctor)).toMatch(/^ok +kubernetes .*: all \d+ permissions$/m);
      await attempt(deploy);
      expect(await attempt(call)).toContain("Hello, Ada!");
      expect(await attempt(pods)).toMatch(/^p-\S+-hello-v1-\S+ +1\/1 +Running/m);

      const printed = await attempt(doctor.replace("doctor", "bootstrap --json"));
      const { project_id: projectId, token } = JSON.parse(printed) as { project_id: string; token: string };
      const services = new ServicePods(namespace, `/v4/${projectId}/hello/run`, token);
      const before = await services.names();
      expect(before).toHaveLength(2);
      // A new variable makes new pods.
      write({ config: { ...config, MILLRACE_LOG_LEVEL: "warn" } });
      let isOver = false;
      const updated = attempt(upgrade).finally(() => (isOver = true));
      // Each throws if it is not answered.
      await until("the update is over", async () => {
        await services.call({ name: "Ada" });
        return isOver;
      });
      await updated;
      await until("those of before are gone", async () => {
        await services.call({ name: "Ada" });
        return (await services.names()).every((name) => !before.includes(name));
      });

      write({ replicaCount: 1 });
      await attempt(upgrade);
      await goesOnElsewhere(services, attempt);

      await attempt(uninstall);
      await attempt(remove);
      await namespace.untilEmpty();
      expect(await namespace.left(["networkpolicies", "configmaps"])).toEqual([]);
    },
  );
});

/** The only service is lost, and the next one has another address: it goes on in the pods of apps. */
async function goesOnElsewhere(
  services: ServicePods,
  attempt: (command: string) => Promise<string>,
): Promise<void> {
  await until("there is one service", async () => (await services.names()).length === 1);
  await services.call({ name: "Ada" });
  const seats = async (): Promise<string[]> => {
    const listed = await attempt("kubectl -n millrace get pods");
    return [...listed.matchAll(/^(p-\S+-hello-v\S+) +1\/1 +Running/gm)].flatMap(([, name]) => name ?? []);
  };
  const before = await seats();
  const [name = ""] = await services.names();
  // As with a machine that is lost: it does nothing any more, and another is made.
  for (const pid of processesOf(name)) process.kill(pid, "SIGSTOP");
  await attempt(`kubectl -n millrace delete pod ${name} --grace-period=0 --force 2>&1`);
  await until("another answers", async () => {
    if ((await services.names()).includes(name)) return false;
    return await services.call({ name: "Ada" }).then(
      () => true,
      () => false,
    );
  });
  expect(before).not.toEqual([]);
  expect(await seats()).toEqual(before);
}

/** How a service in a pod reaches the API by way of this machine, as its own account. */
function accessMap(server: string): object {
  const config = {
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u", namespace: "millrace" } }],
    users: [{ name: "u", user: { tokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token" } }],
    clusters: [{ name: "c", cluster: { server, "insecure-skip-tls-verify": true } }],
  };
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "cluster" },
    data: { config: JSON.stringify(config) },
  };
}
