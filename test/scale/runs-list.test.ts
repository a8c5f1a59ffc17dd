import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, describe, expect } from "vitest";
import type { Principal } from "../../src/identity/principal.ts";
import { uuidv7 } from "../support/ids.ts";
import { createLog } from "../../src/kit/log.ts";
import { createListener } from "../../src/management/api/listener.ts";
import { Audit } from "../../src/identity/audit.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { mount } from "../../src/management/api/mount.ts";
import { runOperations } from "../../src/management/runs/runs.ts";
import { type Run, RUN_STATES, type RunState } from "../../src/model/run.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { packEnded } from "../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../support/databases.ts";
import { inPostgres } from "../support/killable-service.ts";
import { queuedRun, samplePayload, sampleEnd, sampleRun } from "../support/sample-run.ts";
import { verifies } from "../verifies.ts";

/** Records in the database; what is promised is promised for ten million. */
const RUNS = Number(process.env["MILLRACE_SCALE_RUNS"] ?? 10_000_000);
const MAX_MS = 50;
const BATCH = 5_000;
const APPS = 10;
/** Of every hundred runs nine in ten are the first app's; the rest is spread over the others. */
const BIG_SHARE = 0.9;
const QUEUED = 1_000;
const PROJECT = "p-scale";
const TRIES = 3;

const databases = testDatabases();

/** Mostly sync and well, as in life, with a little of everything else. */
function ended(n: number, appNumber: number, createdAt: number): Run {
  const state: RunState = n % 100 === 7 ? "failure" : n % 1_000 === 13 ? "cancelled" : "success";
  const statusCode = state === "success" ? 200 : state === "failure" ? 500 : null;
  return sampleRun({ id: uuidv7(createdAt), appNumber, state, statusCode, isAsync: n % 10 === 3, createdAt });
}

async function fill(store: Store): Promise<string[]> {
  const some: string[] = [];
  const start = Date.now() - RUNS;
  for (let n = 0; n < RUNS; n += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, RUNS - n) }, (_, i) => {
      const appNumber = (n + i) % 100 < BIG_SHARE * 100 ? 1 : 2 + ((n + i) % (APPS - 1));
      return sampleEnd(ended(n + i, appNumber, start + n + i));
    });
    await store.runs.insertFinished([packEnded(batch)]);
    some.push(batch[0]!.run.id);
  }
  for (const owner of [null, "somebody"]) {
    const accepted = Array.from({ length: owner ? 10 : QUEUED }, () => ({
      run: queuedRun({ appNumber: 1, state: owner ? "running" : "queued" }),
      payload: samplePayload(),
      owner,
    }));
    await store.runs.accept(accepted);
  }
  return some;
}

describe.each(DATABASE_KINDS)(`the runs list with ${RUNS} records on %s`, (kind) => {
  let store: Store;
  let app: FastifyInstance;
  let some: string[] = [];

  beforeAll(async () => {
    const database = await databases.fresh(kind);
    store = await openStore(database);
    await store.projects.insert({ id: PROJECT, name: "scale", createdAt: 0 });
    for (let i = 1; i <= APPS; i++)
      await store.apps.insertOrFind({ projectId: PROJECT, name: `app-${i}`, createdAt: 0 });
    const began = performance.now();
    some = await fill(store);
    // What autovacuum does within a minute.
    await inPostgres(database, (client) => client.query("analyze"));
    console.log(`${kind}: ${RUNS} records in ${Math.round((performance.now() - began) / 1000)} s`);
    app = createListener(createLog("silent"));
    const principal: Principal = {
      accountId: "a",
      projectId: PROJECT,
      role: "admin",
      limits: null,
      quotas: null,
      caller: { accountId: "a", user: null },
      fairness: { key: "a", weight: 1 },
      expiresAt: Number.MAX_VALUE,
    };
    mount(
      app,
      runOperations({ store, lookup: { record: () => Promise.resolve(null), liveAppOf: () => null } }),
      {
        authenticate: () => Promise.resolve(principal),
        audit: new Audit(store, systemClock),
      },
    );
    await app.ready();
  }, 3_600_000);

  afterAll(async () => {
    await app.close();
    await store.close();
  });

  /** How long a page took at best, and how many it had. */
  async function pageMs(name: string, query: string): Promise<{ ms: number; count: number }> {
    let [ms, count] = [Number.POSITIVE_INFINITY, 0];
    for (let i = 0; i < TRIES; i++) {
      const began = performance.now();
      const url = `/v2/projects/${PROJECT}/apps/${PROJECT}-${name}/runs?${query}`;
      const answer = await app.inject({ method: "GET", url });
      ms = Math.min(ms, performance.now() - began);
      expect(answer.statusCode).toBe(200);
      count = answer.json<{ items: unknown[] }>().items.length;
    }
    return { ms, count };
  }

  verifies("show.scale.runs", "any filter and any page answers within 50 ms", async () => {
    const slow: string[] = [];
    let worst = { ms: 0, what: "" };
    const places = [0.02, 0.3, 0.5, 0.8, 0.999].map((share) => some[Math.floor(some.length * share)]!);
    const tokens = ["", ...places.map((id) => Buffer.from(id).toString("base64url"))];
    for (const name of ["app-1", "app-2"]) {
      for (const state of [null, ...RUN_STATES]) {
        for (const asyncOnly of [false, true]) {
          for (const nextToken of tokens) {
            const filter = { ...(state && { status: state }), ...(asyncOnly && { asyncOnly: "true" }) };
            const query = new URLSearchParams({ ...filter, nextToken, pageSize: "50" }).toString();
            const { ms, count } = await pageMs(name, query);
            const what = `${name} ${JSON.stringify(filter)} ${nextToken && "later page"}: ${ms.toFixed(1)} ms, ${count} rows`;
            if (ms > MAX_MS) slow.push(what);
            if (ms > worst.ms) worst = { ms, what };
          }
        }
      }
    }
    console.log(`${kind}: slowest ${worst.what}`);
    expect(slow).toEqual([]);
  });
});
