import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { testDatabases } from "../databases.ts";
import { INTERNALS, envOf } from "../../../src/config/setting-keys.ts";
import { type TestApp, type TestService, testService } from "../service.ts";
import { internals } from "../test-settings.ts";
import { TestNamespace } from "./real-cluster.ts";

/** A service whose replicas are pods of a real cluster, in a namespace of the test's own. */
export type PodService = { readonly on: TestService; readonly namespace: TestNamespace };

/** Starts one with some apps. */
export async function podService(
  databases: ReturnType<typeof testDatabases>,
  apps: Record<string, TestApp>,
  flags: Record<string, unknown> = {},
): Promise<PodService> {
  const namespace = await TestNamespace.make();
  const { databaseUrl } = await databases.fresh("postgres");
  const on = await testService(apps, { databaseUrl, ...(await podFlags(namespace)), ...flags });
  return { on, namespace };
}

/** Settings by which the pods of a service are spread evenly over the machines. */
export const SPREAD = {
  kubernetesPod: JSON.stringify({
    topologySpreadConstraints: [
      {
        maxSkew: 1,
        topologyKey: "kubernetes.io/hostname",
        whenUnsatisfiable: "DoNotSchedule",
        labelSelector: { matchLabels: { "app.kubernetes.io/managed-by": "millrace" } },
      },
    ],
  }),
};

/** The machines on which a namespace has pods. */
export async function usedMachines(namespace: TestNamespace): Promise<string[]> {
  const pods = await namespace.list<{ spec: { nodeName?: string } }>("api/v1", "pods");
  return [...new Set(pods.flatMap(({ spec }) => spec.nodeName ?? []))].toSorted();
}

/** The settings of a service that has its replicas there. */
export async function podFlags(namespace: TestNamespace): Promise<Record<string, string>> {
  return {
    engine: "kubernetes",
    kubernetesConfig: namespace.kubeconfig,
    kubernetesImage: namespace.cluster.workerImage,
    seatUrl: `https://${namespace.cluster.hostAddress}:${await freePort()}`,
  };
}

/** The same, as a process of its own is told. */
export async function podEnvironment(namespace: TestNamespace): Promise<Record<string, string>> {
  return environmentOf(await podFlags(namespace));
}

/** Settings as variables. */
export function environmentOf(flags: Record<string, string>): Record<string, string> {
  const isInternal = (name: string): boolean => Object.hasOwn(INTERNALS, name);
  const named = Object.entries(flags).filter(([name]) => !isInternal(name));
  const internal = Object.fromEntries(Object.entries(flags).filter(([name]) => isInternal(name)));
  return {
    ...internals({ keepSeats: false, ...internal }),
    ...Object.fromEntries(
      named.map(([name, value]) => [envOf(name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`)), value]),
    ),
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "::");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
