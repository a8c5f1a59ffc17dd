import { setTimeout as pause } from "node:timers/promises";
import { WebSocket } from "ws";
import type { Roll } from "../support/dice.ts";
import type { Cluster } from "../support/cluster/cluster.ts";
import type { ClusterNode } from "../support/cluster/node.ts";
import { StreamReader } from "../support/stream-reader.ts";
import { CHANGING, ECHOES, SOCKETS } from "./apps.ts";
import type { Balancer, Sent } from "./balancer.ts";
import { Deploys } from "./deploys.ts";
import { type Followed, Follower } from "./follower.ts";
import type { Promised } from "./promised.ts";

/** Something that did not go well for a caller, and what there is to tell of it. */
export type Failure = {
  readonly kind: "call" | "submit" | "stream" | "follow" | "socket" | "deploy";
  readonly app: string;
  readonly entry: ClusterNode | null;
  readonly from: number;
  readonly to: number;
  readonly what: string;
};

/** Between two requests of one caller, at most. */
const REST_MS = 80;
const RUN_MS = 20;
const DEPLOY_GAP_MS = 4_000;
const TALK = 10;

export type LoadParts = {
  readonly cluster: Cluster;
  readonly balancer: Balancer;
  readonly promised: Promised;
  readonly roll: Roll;
  readonly webhook: string;
  /** What one in ten accepted runs adds to its result. */
  readonly padBytes?: number;
};

/** Everybody who uses a cluster: they call, submit, stream, talk and deploy until they are told to stop. */
export class Load {
  readonly failures: Failure[] = [];
  /** What no fault explains: a wrong answer. */
  readonly wrong: string[] = [];
  readonly counts = { calls: 0, submits: 0, streams: 0, follows: 0, sockets: 0, deploys: 0, rollbacks: 0 };
  /** The longest that a sync call took since this was last set to 0. */
  longestMs = 0;
  readonly #parts: LoadParts;
  readonly #deploys: Deploys;
  /** The version that each changing app has, and how often it was changed; null while nobody can know. */
  readonly #versions = new Map<string, { version: number | null; changes: number }>();
  #isOver = false;
  #n = 0;
  #all: Promise<unknown> = Promise.resolve();

  constructor(parts: LoadParts) {
    this.#parts = parts;
    this.#deploys = new Deploys(parts.balancer, parts.cluster);
    for (const app of CHANGING) this.#versions.set(app, { version: 0, changes: 0 });
  }

  start({ deploys }: { readonly deploys: boolean }): void {
    this.#isOver = false;
    const rest = (): number => this.#parts.roll(REST_MS);
    const acts = [
      ...repeated(4, () => this.#again(() => this.#call(), rest)),
      ...repeated(2, () => this.#again(() => this.#submit(), rest)),
      ...repeated(2, () => this.#again(() => this.#stream(), rest)),
      ...repeated(2, () => this.#again(() => this.#follow(), rest)),
      ...repeated(2, () => this.#again(() => this.#talk(), rest)),
      ...(deploys
        ? [
            this.#again(
              () => this.#change(),
              () => this.#parts.roll(DEPLOY_GAP_MS),
            ),
          ]
        : []),
    ];
    this.#all = Promise.all(acts);
  }

  /** No more requests; resolves when all have their answers. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#all;
  }

  async #again(act: () => Promise<void>, rest: () => number): Promise<void> {
    while (!this.#isOver) {
      await act();
      await pause(rest());
    }
  }

  #pick(apps: readonly string[]): string {
    return apps[Math.floor(this.#parts.roll(apps.length))]!;
  }

  #fail(kind: Failure["kind"], app: string, { entry, from, to, status, text, failure }: Sent): void {
    const what = failure ?? `${status} ${text.slice(0, 300)}`;
    this.failures.push({ kind, app, entry, from, to, what });
  }

  async #post(app: string, rest: string, body: object): Promise<Sent> {
    const { balancer, cluster } = this.#parts;
    return await balancer.send({
      of: "api",
      path: `/v4/${cluster.projectId}/${app}/${rest}`,
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  }

  async #call(): Promise<void> {
    const app = this.#pick([...ECHOES, ...CHANGING]);
    const before = { ...this.#versions.get(app) };
    const n = (this.#n += 1);
    const sent = await this.#post(app, "run", { n, ms: this.#parts.roll(RUN_MS) });
    this.counts.calls += 1;
    this.longestMs = Math.max(this.longestMs, sent.to - sent.from);
    if (sent.failure !== null || sent.status !== 200) return this.#fail("call", app, sent);
    const { result } = JSON.parse(sent.text) as { result: { n: number; version: number } };
    if (result.n !== n) this.wrong.push(`call ${n} of ${app}: ${sent.text}`);
    const after = this.#versions.get(app);
    const isSteady = after && before.changes === after.changes && before.version === after.version;
    // A node that is cut off goes on with the version it knows: this is for the judge.
    if (isSteady && after.version !== null && result.version !== after.version)
      this.#fail("call", app, { ...sent, failure: `version ${after.version} is due: ${sent.text}` });
  }

  async #submit(): Promise<void> {
    const { promised, webhook, roll, padBytes = 0 } = this.#parts;
    const app = this.#pick(ECHOES);
    const n = (this.#n += 1);
    const body = { n, ms: roll(RUN_MS), pad: roll(10) < 1 ? padBytes : 0 };
    const sent = await this.#post(app, `run?async=true&webhookEndpoint=${webhook}`, body);
    this.counts.submits += 1;
    if (sent.failure !== null || sent.status !== 202) return this.#fail("submit", app, sent);
    promised.made((JSON.parse(sent.text) as { run_id: string }).run_id, { app, n });
  }

  async #stream(): Promise<void> {
    const { cluster, balancer, roll } = this.#parts;
    const app = this.#pick(ECHOES);
    const n = (this.#n += 1);
    const count = 5 + Math.floor(roll(20));
    const from = Date.now();
    for (const entry of balancer.order()) {
      const { reader, isRefused } = await readStream(cluster, entry, app, { n, count, ms: roll(30) });
      if (isRefused) continue;
      this.counts.streams += 1;
      const expected = Array.from({ length: count }, (_, i) => `${n}:${i}`);
      const text = reader.data.filter((_, i) => reader.messages[i]?.event === null);
      if (text.some((piece, i) => piece !== expected[i]))
        this.wrong.push(`a stream of ${app}: ${text.join(" ")} for ${expected.join(" ")}`);
      if (reader.head?.status === 200 && reader.isWhole && text.length === count) return;
      const error = reader.messages.find(({ event }) => event === "error");
      if (reader.head?.status === 200 && reader.isWhole && !error)
        this.wrong.push(`a stream of ${app} ended as if whole with ${text.length} of ${count} messages`);
      const what = `${reader.head?.status} ${text.length} of ${count} ${error?.data ?? ""} ${reader.text.slice(-200)}`;
      this.failures.push({ kind: "stream", app, entry, from, to: Date.now(), what });
      return;
    }
    this.failures.push({ kind: "stream", app, entry: null, from, to: Date.now(), what: "refused by all" });
  }

  /** A run whose events are read in pieces, through one node after the other: one that is queued, or one that streams. */
  async #follow(): Promise<void> {
    const { roll } = this.#parts;
    const app = this.#pick(ECHOES);
    const n = (this.#n += 1);
    const count = 10 + Math.floor(roll(40));
    const body = { n, count, ms: roll(60) };
    const from = Date.now();
    const isAsync = roll(2) < 1;
    const run = isAsync ? await this.#begin(app, body) : await this.#beginStream(app, body);
    if (!run) return;
    const follower = new Follower({ ...run, count }, this.#parts, run.after);
    const { entry, record, got } = await follower.follow();
    this.counts.follows += 1;
    this.wrong.push(...follower.wrong);
    if (record?.status === "success") return;
    const what = `${record ? `${record.status} after ${got} of ${count}` : "is not known"}: ${run.id}`;
    if (isAsync) this.wrong.push(`a queued stream of ${app} ${what} ${JSON.stringify(record)}`);
    else this.failures.push({ kind: "follow", app, entry: run.entry ?? entry, from, to: Date.now(), what });
  }

  async #begin(app: string, body: { n: number }): Promise<Begun | null> {
    const sent = await this.#post(app, "stream?async=true", body);
    if (sent.failure === null && sent.status === 202)
      return {
        app,
        id: (JSON.parse(sent.text) as { run_id: string }).run_id,
        n: body.n,
        after: 0,
        entry: null,
      };
    this.#fail("submit", app, sent);
    return null;
  }

  /** A stream whose caller leaves after a few messages, and that goes on without it. */
  async #beginStream(app: string, body: { n: number }): Promise<Begun | null> {
    const { cluster, balancer, roll } = this.#parts;
    const [entry] = balancer.order();
    const reader = new StreamReader({
      url: cluster.url(entry!, app, "stream"),
      token: cluster.token,
      body: JSON.stringify(body),
      headers: { connection: "close", "x-disconnect": "continue" },
    });
    await Promise.race([reader.ended(), reader.hasMessages(1 + Math.floor(roll(5)))]);
    reader.leave();
    // What did not begin is for `#stream` to judge.
    if (reader.head?.status !== 200) return null;
    const after = reader.messages.filter(({ event }) => event === null).length;
    return { app, id: reader.runId, n: body.n, after, entry: entry! };
  }

  async #talk(): Promise<void> {
    const { cluster, balancer } = this.#parts;
    const app = this.#pick(SOCKETS);
    const from = Date.now();
    for (const entry of balancer.order()) {
      const said = await talk(cluster, entry, app);
      if (said.isRefused) continue;
      this.counts.sockets += 1;
      // 1012: the service says that it restarts, and its clients come again.
      if (said.code === 1000 || said.code === 1012) return;
      const what = `closed with ${said.code} ${said.why}`;
      this.failures.push({ kind: "socket", app, entry, from, to: Date.now(), what });
      return;
    }
  }

  /** Another version of a changing app, or one that it had before. */
  async #change(): Promise<void> {
    const app = this.#pick(CHANGING);
    const known = this.#versions.get(app)!;
    const isBack = known.version !== null && known.version > 0 && this.#parts.roll(3) < 1;
    const version = (this.#n += 1);
    this.#versions.set(app, { version: null, changes: known.changes + 1 });
    const from = Date.now();
    const first = isBack ? this.#builds.get(app) : undefined;
    const { wrong, status, buildId } = first
      ? await this.#deploys.rollBack(app, first.buildId)
      : await this.#deploys.deploy(app, version);
    if (wrong) {
      this.failures.push({
        kind: "deploy",
        app,
        entry: wrong.entry,
        from,
        to: Date.now(),
        what: `${status} ${wrong.status} ${wrong.failure ?? wrong.text.slice(0, 300)}`,
      });
      return;
    }
    this.counts[first ? "rollbacks" : "deploys"] += 1;
    // Of many versions only the latest are kept.
    if (!first) this.#builds.set(app, this.#latest.get(app) ?? { buildId, version });
    this.#latest.set(app, first ?? { buildId, version });
    this.#versions.set(app, { version: first?.version ?? version, changes: known.changes + 2 });
  }

  /** What is served, and what is rolled back to: the one before. */
  readonly #latest = new Map<string, { buildId: string; version: number }>();
  readonly #builds = new Map<string, { buildId: string; version: number }>();
}

type Begun = Omit<Followed, "count"> & {
  /** How many events its caller has had. */
  readonly after: number;
  /** The node that streams it, if it is not queued. */
  readonly entry: ClusterNode | null;
};

type Streamed = { readonly reader: StreamReader; readonly isRefused: boolean };

async function readStream(
  cluster: Cluster,
  entry: ClusterNode,
  app: string,
  body: object,
): Promise<Streamed> {
  const { token } = cluster;
  const reader = new StreamReader({
    url: cluster.url(entry, app, "stream"),
    token,
    body: JSON.stringify(body),
    headers: { connection: "close" },
  });
  let isRefused = false;
  reader.socket.on("error", (error: NodeJS.ErrnoException) => (isRefused ||= error.code === "ECONNREFUSED"));
  await reader.ended();
  reader.leave();
  return { reader, isRefused };
}

type Said = { readonly code: number; readonly why: string; readonly isRefused: boolean };

/** A WebSocket on which a few messages go to and fro, each of which comes back as it was. */
async function talk(cluster: Cluster, entry: ClusterNode, app: string): Promise<Said> {
  const url = cluster.url(entry, app, "talk").replace(/^http/, "ws");
  const client = new WebSocket(url, { headers: { authorization: `Bearer ${cluster.token}` } });
  let why = "";
  let isRefused = false;
  let count = 0;
  let expected: string | null = null;
  client.on("error", (error: NodeJS.ErrnoException) => {
    why = error.message;
    isRefused = error.code === "ECONNREFUSED";
  });
  client.on("message", (data: Buffer) => {
    if (expected !== null && data.toString() !== expected) why = `got ${data.toString()} for ${expected}`;
    if (why !== "" || count === TALK) return client.close(why === "" ? 1000 : 4000);
    expected = `message ${(count += 1)}`;
    client.send(expected);
  });
  // Not `once` of node:events, which ends with the error that comes before the close.
  return await new Promise((resolve) => {
    client.once("close", (code, reason) => resolve({ code, why: `${why} ${reason.toString()}`, isRefused }));
  });
}

function repeated<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make);
}
