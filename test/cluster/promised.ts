import type { Cluster } from "../support/cluster/cluster.ts";
import { until } from "../support/until.ts";
import type { WebhookTarget } from "../support/webhook-target.ts";
import type { Balancer } from "./balancer.ts";

type Made = { readonly app: string; readonly n: number };
type Found = {
  readonly status: string;
  readonly statusCode: number;
  readonly result?: { readonly n: number };
};

const LOOKERS = 8;

/** Every run that a cluster accepted: each is a promise that it ends once, well, and that its webhook comes. */
export class Promised {
  readonly accepted = new Map<string, Made>();
  readonly breaches: string[] = [];
  readonly #cluster: Cluster;
  readonly #balancer: Balancer;

  constructor(cluster: Cluster, balancer: Balancer) {
    this.#cluster = cluster;
    this.#balancer = balancer;
  }

  made(id: string, made: Made): void {
    this.accepted.set(id, made);
  }

  /** Waits until every one has ended, and every webhook has come. */
  async keep({ received, news }: WebhookTarget): Promise<void> {
    const left = this.accepted.entries();
    const look = async (): Promise<void> => {
      for (const [id, made] of left) await this.#ended(id, made);
    };
    await Promise.all(Array.from({ length: LOOKERS }, look));
    const bodies = new Map<string, string>();
    let read = 0;
    await until(
      "every webhook has come",
      () => {
        for (const { headers, body } of received.slice(read)) {
          const id = String(headers["webhook-id"]);
          const text = body.toString();
          if ((bodies.get(id) ?? text) !== text)
            this.breaches.push(`the webhook of ${id} came with two bodies`);
          bodies.set(id, text);
        }
        read = received.length;
        return [...this.accepted.keys()].every((id) => bodies.has(id));
      },
      news,
    );
  }

  async #ended(id: string, { app, n }: Made): Promise<void> {
    const path = `/v4/${this.#cluster.projectId}/${app}/runs/${id}`;
    let found: Found | null = null;
    await until(`the run ${id} of ${app} ends`, async () => {
      const { status, text } = await this.#balancer.send({ of: "api", path });
      if (status === 404) this.breaches.push(`${id} of ${app} is not known`);
      if (status === 404) return true;
      found = status === 200 ? (JSON.parse(text) as Found) : null;
      return found !== null && found.status !== "queued" && found.status !== "running";
    });
    const ended = found as Found | null;
    if (ended && (ended.status !== "success" || ended.result?.n !== n))
      this.breaches.push(`${id} of ${app} ended as ${JSON.stringify(ended).slice(0, 500)}`);
  }
}
