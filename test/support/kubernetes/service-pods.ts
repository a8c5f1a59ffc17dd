import type { TestNamespace } from "./real-cluster.ts";

type Pod = {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly status: {
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
};

/** The services of an installation that are pods, called as a balancer of the cluster does: those that are ready. */
export class ServicePods {
  readonly #namespace: TestNamespace;
  readonly #path: string;
  readonly #token: string;
  #turn = 0;

  constructor(namespace: TestNamespace, path: string, token: string) {
    this.#namespace = namespace;
    this.#path = path;
    this.#token = token;
  }

  /** Of all there are, those that are about to end too. */
  async names(): Promise<string[]> {
    return (await this.#pods()).map(({ metadata }) => metadata.name);
  }

  /** Where one of them is, that is not about to end, whether it is ready or not. */
  async address(): Promise<string> {
    const there = (await this.#pods()).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const address = there.flatMap(({ status }) => status.podIP ?? [])[0];
    if (address === undefined) throw new Error("no service has an address");
    return address;
  }

  /** Has the next of them answer. Throws if it does not. */
  async call(body: object): Promise<void> {
    const ready = (await this.#pods()).filter(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined &&
        status.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True"),
    );
    this.#turn += 1;
    const pod = ready[this.#turn % ready.length];
    if (!pod) throw new Error("no service is ready");
    const answer = await fetch(`http://${pod.status.podIP}:4000${this.#path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${pod.metadata.name}: ${answer.status} ${await answer.text()}`);
  }

  async #pods(): Promise<readonly Pod[]> {
    const query = { labelSelector: "app.kubernetes.io/component=service" };
    return await this.#namespace.list<Pod>("api/v1", "pods", query);
  }
}
