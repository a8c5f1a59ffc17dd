import { request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import type { Cluster } from "../support/cluster/cluster.ts";
import type { ClusterNode } from "../support/cluster/node.ts";

const LOOK_MS = 100;
const LOOK_AT_MOST_MS = 1_000;

/** What is asked for, of whichever node. */
export type Ask = {
  /** The run endpoint, or the management API. */
  readonly of: "api" | "base";
  /** From its first slash on. */
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
};

/** What became of a request: an answer, or none. Times are of the clock that the database has too. */
export type Sent = {
  readonly entry: ClusterNode;
  readonly from: number;
  readonly to: number;
  readonly status: number | null;
  readonly text: string;
  /** Why there is no whole answer. */
  readonly failure: string | null;
};

type Outcome = Pick<Sent, "status" | "text" | "failure"> & { readonly isRefused: boolean };

/**
 * Sends requests to the nodes in turn, as a load balancer does: it leaves out those that do not say that they are ready,
 * and goes on to the next one only if a connection is refused, when nothing was sent. Every request has a connection of
 * its own.
 */
export class Balancer {
  readonly #cluster: Cluster;
  readonly #out = new Set<ClusterNode>();
  #turn = 0;
  #isOver = false;
  #looks: Promise<unknown> = Promise.resolve();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Asks every node again and again whether it is ready. */
  start(): void {
    this.#looks = Promise.all(this.#cluster.nodes.map((node) => this.#watch(node)));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#looks;
  }

  /** The nodes, in the order in which a request tries them. */
  order(): readonly ClusterNode[] {
    const { nodes } = this.#cluster;
    const at = (this.#turn += 1) % nodes.length;
    const inTurn = [...nodes.slice(at), ...nodes.slice(0, at)];
    const ready = inTurn.filter((node) => !this.#out.has(node));
    return ready.length > 0 ? ready : inTurn;
  }

  async send(ask: Ask): Promise<Sent> {
    const from = Date.now();
    let last: Sent | null = null;
    for (const entry of this.order()) {
      const { isRefused, ...outcome } = await sendTo(entry, ask, this.#cluster.token);
      last = { entry, from, to: Date.now(), ...outcome };
      if (!isRefused) break;
    }
    return last!;
  }

  async #watch(node: ClusterNode): Promise<void> {
    while (!this.#isOver) {
      const isReady = await Promise.race([node.isReady(), pause(LOOK_AT_MOST_MS, false, { ref: false })]);
      if (isReady) this.#out.delete(node);
      else this.#out.add(node);
      await pause(LOOK_MS);
    }
  }
}

/** One request to one node. */
export async function sendTo(node: ClusterNode, ask: Ask, token: string): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const { of, path, method = "GET", headers = {}, body } = ask;
  const url = `${of === "api" ? node.apiUrl : node.baseUrl}${path}`;
  let text = "";
  let status: number | null = null;
  const fail = (error: NodeJS.ErrnoException): void =>
    resolve({ status, text, failure: error.message, isRefused: error.code === "ECONNREFUSED" });
  const sent = request(url, {
    agent: false,
    method,
    headers: { authorization: `Bearer ${token}`, ...headers },
  });
  sent.on("error", fail);
  sent.on("response", (response) => {
    status = response.statusCode ?? 0;
    response.setEncoding("utf8");
    response.on("data", (piece: string) => (text += piece));
    response.on("error", fail);
    response.on("end", () => resolve({ status, text, failure: null, isRefused: false }));
  });
  sent.end(body);
  return await promise;
}
