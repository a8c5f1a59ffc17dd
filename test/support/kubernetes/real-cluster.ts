import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseAllDocuments } from "yaml";
import { inject, onTestFinished } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";
import { ApiError, KubernetesApi } from "../../../src/engines/kubernetes/api.ts";
import { readKubeconfig } from "../../../src/engines/kubernetes/cluster-access.ts";
import { REPOSITORY } from "../source-files.ts";
import { until } from "../until.ts";
import type { TestCluster } from "./cluster-setup.ts";

/** The cluster of this test run; null where there is none, which was said aloud. */
export const TEST_CLUSTER: TestCluster | null = inject("testCluster");

type Named = { readonly metadata: { readonly name: string } };

/** Where the objects of `images.yaml` go that are in no namespace. */
const ADMISSION = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"].map(
  (resource) => `/apis/admissionregistration.k8s.io/v1/${resource}`,
);

/** A namespace of a test's own, held to the restricted profile, with an account that may do what our role says. */
export class TestNamespace {
  readonly name: string;
  readonly cluster: TestCluster;
  /** Of the account of the service. */
  readonly kubeconfig: string;
  readonly #admin: KubernetesApi;

  private constructor(cluster: TestCluster, name: string, admin: KubernetesApi, kubeconfig: string) {
    this.cluster = cluster;
    this.name = name;
    this.#admin = admin;
    this.kubeconfig = kubeconfig;
  }

  static async make(): Promise<TestNamespace> {
    const namespace = await TestNamespace.use(`test-${randomUUID().slice(0, 8)}`);
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await namespace.#admin.ask({
      method: "POST",
      path: "/api/v1/namespaces",
      body: { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace.name, labels } },
    });
    await namespace.#makeAccount();
    return namespace;
  }

  /** One more, by `packaging/kubernetes/images.yaml`, in which the same account may build images. */
  async forImages(): Promise<TestNamespace> {
    const namespace = await TestNamespace.use(`${this.name}-images`);
    const text = readFileSync(path.join(REPOSITORY, "packaging/kubernetes/images.yaml"), "utf8")
      .replaceAll("millrace-images", namespace.name)
      .replaceAll("namespace: millrace\n", `namespace: ${this.name}\n`);
    const [whole, role, binding, ...policies] = parseAllDocuments(text).map(
      (document) => document.toJS() as object,
    );
    await namespace.#admin.ask({ method: "POST", path: "/api/v1/namespaces", body: whole });
    await namespace.create("apis/rbac.authorization.k8s.io/v1", "roles", role!);
    await namespace.create("apis/rbac.authorization.k8s.io/v1", "rolebindings", binding!);
    for (const [index, policy] of policies.entries())
      await namespace.#createForAll(ADMISSION[index] ?? "", policy);
    return namespace;
  }

  /** Something that is in no namespace, and has this one's name. It is removed at the test's end. */
  async #createForAll(path: string, body: object): Promise<void> {
    onTestFinished(async () => {
      await this.#admin.ask({ method: "DELETE", path: `${path}/${this.name}` });
    });
    await this.#admin.ask({ method: "POST", path, body });
  }

  /** One that the test makes itself. It is removed at its end. */
  static async use(name: string): Promise<TestNamespace> {
    if (!TEST_CLUSTER) throw new Error("there is no cluster");
    const admin = new KubernetesApi({ ...readKubeconfig(TEST_CLUSTER.kubeconfig), namespace: name });
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-namespace-"));
    const whole = `/api/v1/namespaces/${name}`;
    const isGone = async (): Promise<boolean> =>
      await admin.ask({ method: "GET", path: whole }).then(
        () => false,
        (error: unknown) => error instanceof ApiError && error.status === 404,
      );
    // Of a test before it.
    await until("no namespace has that name", isGone);
    onTestFinished(async () => {
      rmSync(folder, { recursive: true, force: true });
      await admin.ask({ method: "DELETE", path: whole });
      admin.close();
    });
    return new TestNamespace(TEST_CLUSTER, name, admin, path.join(folder, "config"));
  }

  /** As the operator. */
  async create(
    group: string,
    resource: string,
    body: object,
    query: Record<string, string> = {},
  ): Promise<unknown> {
    return await this.#admin.ask({ method: "POST", path: this.#admin.pathOf(group, resource), query, body });
  }

  /** Why a pod of that spec would not be admitted; null if it would. */
  async refusalOf(spec: object): Promise<string | null> {
    const body = { apiVersion: "v1", kind: "Pod", metadata: { name: "tried" }, spec };
    return await this.create("api/v1", "pods", body, { dryRun: "All" }).then(
      () => null,
      (error: unknown) => (error as Error).message,
    );
  }

  /** One more of a kind, with the same data under another name. */
  async copy(resource: string, from: string, name: string): Promise<void> {
    const path = this.#admin.pathOf("api/v1", resource, from);
    const found = (await this.#admin.ask({ method: "GET", path })) as object;
    await this.create("api/v1", resource, { ...found, metadata: { name } });
  }

  async remove(group: string, resource: string, name: string): Promise<void> {
    await this.#admin.ask({ method: "DELETE", path: this.#admin.pathOf(group, resource, name) });
  }

  /** What there is of a kind, as the operator sees it. */
  async list<Item>(
    group: string,
    resource: string,
    query: Record<string, string> = {},
  ): Promise<readonly Item[]> {
    const answer = await this.#admin.ask({ method: "GET", path: this.#admin.pathOf(group, resource), query });
    return (answer as { items: readonly Item[] }).items;
  }

  async patch(group: string, resource: string, name: string, body: object): Promise<void> {
    const contentType = "application/merge-patch+json";
    await this.#admin.ask({
      method: "PATCH",
      path: this.#admin.pathOf(group, resource, name),
      body,
      contentType,
    });
  }

  /** Makes a claim by that name for a folder of this machine, which anybody may write to; gives the folder. */
  async claim(name: string): Promise<string> {
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-claim-"));
    chmodSync(folder, 0o777);
    const volume = `${this.name}-${name}`;
    const place = "/api/v1/persistentvolumes";
    onTestFinished(async () => {
      await this.#admin.ask({ method: "DELETE", path: `${place}/${volume}` });
      rmSync(folder, { recursive: true, force: true });
    });
    const spec = { accessModes: ["ReadWriteMany"], storageClassName: "" };
    await this.#admin.ask({
      method: "POST",
      path: place,
      body: {
        apiVersion: "v1",
        kind: "PersistentVolume",
        metadata: { name: volume },
        spec: { ...spec, capacity: { storage: "1Gi" }, hostPath: { path: folder } },
      },
    });
    await this.create("api/v1", "persistentvolumeclaims", {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name },
      spec: { ...spec, volumeName: volume, resources: { requests: { storage: "1Gi" } } },
    });
    return folder;
  }

  /** What has our labels, as `pods/NAME`. */
  async left(resources: readonly string[] = ["pods", "secrets"]): Promise<string[]> {
    const found: string[] = [];
    for (const resource of resources) {
      const group = resource === "networkpolicies" ? "apis/networking.k8s.io/v1" : "api/v1";
      const query = { labelSelector: "app.kubernetes.io/managed-by=millrace" };
      const items = await this.list<Named>(group, resource, query);
      found.push(...items.map(({ metadata }) => `${resource}/${metadata.name}`));
    }
    return found;
  }

  /** Waits until no seat has left anything behind. */
  async untilEmpty(): Promise<void> {
    await until("nothing is left", async () => (await this.left()).length === 0);
  }

  async #makeAccount(): Promise<void> {
    const text = readFileSync(path.join(REPOSITORY, "packaging/kubernetes/role.yaml"), "utf8");
    // The same in a namespace by another name.
    const [, account, role, binding] = parseAllDocuments(
      text.replaceAll("namespace: millrace", `namespace: ${this.name}`),
    ).map((document) => document.toJS() as object);
    await this.create("api/v1", "serviceaccounts", account!);
    await this.create("apis/rbac.authorization.k8s.io/v1", "roles", role!);
    await this.create("apis/rbac.authorization.k8s.io/v1", "rolebindings", binding!);
    const answer = (await this.create("api/v1", "serviceaccounts/millrace/token", {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: 3_600 },
    })) as { status: { token: string } };
    const { server, tls } = readKubeconfig(this.cluster.kubeconfig);
    const config = {
      "current-context": "c",
      contexts: [{ name: "c", context: { cluster: "c", user: "u", namespace: this.name } }],
      users: [{ name: "u", user: { token: answer.status.token } }],
      clusters: [
        {
          name: "c",
          cluster: {
            server: server.href,
            "insecure-skip-tls-verify": !tls.rejectUnauthorized,
            ...(tls.ca && { "certificate-authority-data": Buffer.from(tls.ca).toString("base64") }),
          },
        },
      ],
    };
    writeFileSync(this.kubeconfig, JSON.stringify(config), { mode: 0o600 });
  }
}

/** A pod that has called. */
export type Caller = {
  readonly ticket: string;
  readonly seen: Record<string, unknown>;
  readonly socket: Socket;
};

/** Where pods of a test that play agents call. */
export class CallHome {
  readonly address: string;
  readonly #callers: Caller[] = [];
  readonly #news = new Condition();

  private constructor(address: string) {
    this.address = address;
  }

  static async open(): Promise<CallHome> {
    const server = createServer();
    const sockets = new Set<Socket>();
    server.listen(0, "0.0.0.0");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const home = new CallHome(`${TEST_CLUSTER?.hostAddress}:${port}`);
    server.on("connection", (socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      let text = "";
      socket.on("data", (bytes: Buffer) => {
        text += bytes.toString("utf8");
        const [ticket = "", seen, rest] = text.split("\n");
        if (rest === undefined) return;
        home.#callers.push({ ticket, seen: JSON.parse(seen ?? "") as Record<string, unknown>, socket });
        text = "";
        home.#news.notify();
      });
    });
    onTestFinished(async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    });
    return home;
  }

  /** Waits for the pod with that ticket. */
  async caller(ticket: string): Promise<Caller> {
    const find = (): Caller | undefined => this.#callers.find((each) => each.ticket === ticket);
    await until(`a call of ${ticket}`, () => find() !== undefined, this.#news);
    return find()!;
  }
}
