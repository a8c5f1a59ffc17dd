import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Pool } from "pg";
import { onTestFinished } from "vitest";
import { winnerOf } from "../../../src/nodes/rendezvous.ts";
import { openStore } from "../../../src/store/store.ts";
import { installed } from "../command-line.ts";
import { DeployClient } from "../deploy-client.ts";
import { explains } from "../explain.ts";
import { type PostgresServer, startPostgres } from "../postgres-server.ts";
import { SilentProxy } from "../silent-proxy.ts";
import { until } from "../until.ts";
import { zipOf } from "../zip.ts";
import { History } from "./history.ts";
import { ClusterNode } from "./node.ts";

/** Below those that the kernel gives to whoever asks for none in particular, and above those of server apps. */
const PORTS = { first: 25_000, count: 7_000 };
/** One after the other from somewhere on: a port that was given out is free until its node listens. */
let nextPort = Math.floor(Math.random() * PORTS.count);

/** What a call needs to know of an installation. */
export type Installation = { readonly projectId: string; readonly token: string };

/**
 * Several services that are one installation: a Postgres of the test's own, a shared folder for blobs, and for each node
 * a process, a data directory, a way to Postgres and a way for the others to it. All end with the test.
 */
export class Cluster implements Installation {
  readonly nodes: readonly ClusterNode[];
  readonly postgres: PostgresServer;
  /** To ask the database; a restart of it does not end it. */
  readonly database: Pool;
  readonly history: History;
  readonly projectId: string;
  readonly token: string;

  private constructor(
    nodes: readonly ClusterNode[],
    { postgres, database, history }: Pick<Cluster, "postgres" | "database" | "history">,
    installation: Installation,
  ) {
    this.nodes = nodes;
    this.postgres = postgres;
    this.database = database;
    this.history = history;
    this.projectId = installation.projectId;
    this.token = installation.token;
  }

  static async start(count: number, env: Readonly<Record<string, string>> = {}): Promise<Cluster> {
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-cluster-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    // Without it nobody can tell the order in which transactions became true.
    const postgres = await startPostgres({ settings: ["track_commit_timestamp=on", "max_connections=300"] });
    onTestFinished(() => postgres.stop());
    const names = Array.from({ length: count }, (_, n) => `node_${n + 1}`);
    const database = await prepareDatabase(postgres.url, folder, names);
    const history = await History.begin(database);
    const blobs = path.join(folder, "blobs");
    mkdirSync(blobs);
    const shared = { MILLRACE_BLOBS: blobs, MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8", ...env };
    const nodes: ClusterNode[] = [];
    for (const name of names) {
      const url = new URL(postgres.url);
      url.username = name;
      const way = await SilentProxy.open(url.href);
      const [apiPort, basePort, peerPort] = [await freePort(), await freePort(), await freePort()];
      const peers = await SilentProxy.openTo(peerPort);
      await history.lead(name, peers.url);
      const dataDir = path.join(folder, name);
      const own = { MILLRACE_NODE_URL: `https://127.0.0.1:${peerPort}`, ...shared };
      nodes.push(new ClusterNode({ name, dataDir, apiPort, basePort, database: way, peers, env: own }));
    }
    const [first, ...others] = nodes;
    if (!first) throw new Error("a cluster has nodes");
    await first.start();
    for (const node of others) node.takeKeyOf(first);
    await Promise.all(others.map((node) => node.start()));
    const { project_id: projectId, token } = await installed(first.dataDir, {
      MILLRACE_DATABASE_URL: first.database.url,
    });
    const cluster = new Cluster(nodes, { postgres, database, history }, { projectId, token });
    onTestFinished(
      explains(() => nodes.map((node) => `${node.name} is ${node.id} at ${node.apiUrl}`).join("\n")),
    );
    return cluster;
  }

  node(name: string): ClusterNode {
    const node = this.nodes.find((each) => each.name === name);
    if (!node) throw new Error(`there is no ${name}`);
    return node;
  }

  /** Deploys through one of the nodes; throws unless it succeeds. Returns the build's id. */
  async deploy(app: string, files: Readonly<Record<string, string>>, by = this.nodes[0]!): Promise<string> {
    const client = new DeployClient({ ...this.#access, baseUrl: by.baseUrl }, app);
    const { buildId, status } = await client.deploy(await zipOf(files));
    if (status === "success") return buildId;
    throw new Error(`the deploy of ${app} ended with ${status}: ${(await client.log(buildId)).join("\n")}`);
  }

  /** Rolls an app back through one of the nodes; the answer's status. */
  async rollBack(app: string, buildId: string, by = this.nodes[0]!): Promise<number> {
    const url = `${by.baseUrl}/v2/projects/${this.projectId}/apps/${this.projectId}-${app}/rollback`;
    const response = await fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      body: JSON.stringify({ buildId }),
    });
    await response.text();
    return response.status;
  }

  /** Where an app is called at a node. */
  url(node: Pick<ClusterNode, "apiUrl">, app: string, rest: string): string {
    return `${node.apiUrl}/v4/${this.projectId}/${app}/${rest}`;
  }

  /** The node that has the app, by what the database says; null when none of those that run does. */
  async ownerOf(app: string): Promise<ClusterNode | null> {
    const owner = await this.history.ownerOf(app);
    return this.nodes.find((node) => node.id === owner) ?? null;
  }

  /** Waits until all nodes live, and every app is where it belongs. */
  async untilSettled(): Promise<void> {
    await until("every app is at its node", async () => {
      const { living, apps } = await this.history.places();
      const isAll = this.nodes.every((node) => living.some(({ id }) => id === node.id));
      return isAll && apps.every(({ number, owner }) => winnerOf(number, living)?.id === owner);
    });
  }

  get #access(): Installation {
    return { projectId: this.projectId, token: this.token };
  }
}

/** All tables, and a role for each node; nothing runs yet. */
async function prepareDatabase(url: string, folder: string, names: readonly string[]): Promise<Pool> {
  const store = await openStore({ databaseUrl: url, dataDir: folder });
  await store.close();
  const database = new Pool({ connectionString: url, max: 1 });
  database.on("error", () => undefined);
  onTestFinished(() => database.end());
  for (const name of names) await database.query(`create role ${name} superuser login`);
  return database;
}

async function freePort(): Promise<number> {
  for (;;) {
    const port = PORTS.first + (nextPort++ % PORTS.count);
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await Promise.race([
      once(server, "listening").then(() => true),
      once(server, "error").then(() => false),
    ]);
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}
