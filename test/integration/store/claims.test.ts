import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import type { FinishedClaim } from "../../../src/store/runs/final-runs.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { signOfLife } from "../../support/leases.ts";
import { queuedRun, sampleDelivery, samplePayload } from "../../support/sample-run.ts";

const databases = testDatabases();
const LEASE_MS = 60_000;
const ALL = { limit: 100, maxBytes: 1_000_000 };
const NOW = Date.UTC(2026, 0, 2);

describe.each(DATABASE_KINDS)("claims on %s", (kind) => {
  let database: TestDatabase;
  let store: Store;
  let lastApp = 0;
  beforeAll(async () => {
    database = await databases.fresh(kind);
    store = await openStore(database);
  });
  afterAll(async () => {
    await store.close();
  });

  const text = (bytes: Uint8Array | null | undefined) => bytes && Buffer.from(bytes).toString();
  const take = (appNumber: number, owner: string, bounds: Partial<typeof ALL> = {}) =>
    store.claims.claim({ appNumber, owner, ...ALL, ...bounds });
  const claim = async (...query: Parameters<typeof take>) => (await take(...query)).runs;

  /** Queues so many runs of an app of their own, each with its number as input. */
  async function queue(count: number): Promise<Run[]> {
    const appNumber = ++lastApp;
    const accepted = Array.from({ length: count }, (_, i) => ({
      run: queuedRun({ appNumber }),
      payload: samplePayload({ input: Buffer.from(`input ${i}`) }),
      owner: null,
    }));
    await store.runs.accept(accepted);
    return accepted.map(({ run }) => run);
  }

  /** How its holder ends a claimed run. */
  function success(
    run: Run,
    owner: string,
    fence: number,
    fields: Partial<FinishedClaim> = {},
  ): FinishedClaim {
    return {
      run: { ...run, state: "success", statusCode: 200, completedAt: NOW, replicaId: "r-1", runMs: 1.5 },
      owner,
      fence,
      result: { bytes: Buffer.from(`result of ${run.id}`), contentType: "application/json" },
      part: null,
      delivery: null,
      ...fields,
    };
  }

  test("later attempts of a run that was interrupted count towards the app's rate", async () => {
    const [run] = (await queue(2)) as [Run, Run];
    const { appNumber, id } = run;
    const rates = { rateLimit: { count: 1, periodSeconds: 10 }, concurrencyKeyRateLimit: null };
    const limits = { concurrencyLimit: null, concurrencyKeyLimit: null, maxBacklog: null };
    const begin = async (now: number) => {
      const query = { appNumber, owner: "one", ...ALL, limit: 1, queue: { ...limits, ...rates }, now };
      const { runs, held } = await store.claims.claim(query);
      return runs.length > 0 ? runs.map((claimed) => claimed.run.id) : held;
    };
    expect(await begin(NOW)).toEqual([id]);
    await store.claims.recover({ owner: "two", isAlone: false, dead: ["one"] });
    expect(await begin(NOW + 20_000)).toEqual([id]);
    const second = { isInterruption: false, attempt: 2 };
    await store.claims.release([{ appNumber, id, owner: "one", fence: 2, ...second }]);
    expect(await begin(NOW + 20_001)).toEqual([id]);
    expect(await begin(NOW + 20_002)).toMatchObject({ nextAt: expect.any(Number) });
  });

  test("runs are claimed oldest first, with their input, and each once", async () => {
    const [a, b, c] = (await queue(3)) as [Run, Run, Run];
    expect(await store.runs.find(a)).toEqual(a);
    const first = await claim(a.appNumber, "one", { limit: 2 });
    expect(first.map(({ run }) => run)).toEqual([
      { ...a, state: "running" },
      { ...b, state: "running" },
    ]);
    expect(first.map(({ fence, payload }) => [fence, text(payload.input)])).toEqual([
      [1, "input 0"],
      [1, "input 1"],
    ]);
    expect((await claim(a.appNumber, "two")).map(({ run }) => run.id)).toEqual([c.id]);
    expect(await claim(a.appNumber, "two")).toEqual([]);
  });

  test("a claim stops before the inputs pass its bound, but gives one", async () => {
    const [first] = (await queue(4)) as [Run];
    const size = "input 0".length;
    expect(await claim(first.appNumber, "one", { maxBytes: size * 2 })).toHaveLength(2);
    expect(await claim(first.appNumber, "one", { maxBytes: 0 })).toHaveLength(1);
  });

  test("a claim says whether it left any", async () => {
    const [{ appNumber }] = (await queue(4)) as [Run];
    const left = async (bounds: Partial<typeof ALL>) => (await take(appNumber, "one", bounds)).hasMore;
    expect(await left({ maxBytes: 0 })).toBe(true);
    expect(await left({ limit: 2 })).toBe(true);
    expect(await left({ limit: 1 })).toBe(false);
    expect(await left({})).toBe(false);
  });

  test("many claimers at once share the runs out", async () => {
    const queued = await queue(60);
    const shares = await Promise.all(
      Array.from({ length: 12 }, (_, i) => claim(queued[0]!.appNumber, `owner ${i}`, { limit: 10 })),
    );
    const ids = shares.flat().map(({ run }) => run.id);
    expect(new Set(ids).size).toBe(ids.length);
    // What one skipped because another had it locked is still there.
    const rest = await claim(queued[0]!.appNumber, "last");
    expect([...ids, ...rest.map(({ run }) => run.id)].toSorted()).toEqual(queued.map(({ id }) => id));
  });

  test("the backlog is the apps that have queued runs", async () => {
    const [a] = (await queue(2)) as [Run];
    const [b] = (await queue(1)) as [Run];
    const [c] = (await queue(5)) as [Run];
    await claim(b.appNumber, "one");
    await claim(c.appNumber, "one", { limit: 4 });
    const backlog = await store.claims.backlog();
    expect(backlog.filter((number) => number >= a.appNumber)).toEqual([a.appNumber, c.appNumber]);
  });

  test("a run accepted with an owner is running, and is nobody else's", async () => {
    const run = queuedRun({ appNumber: ++lastApp, state: "running" });
    await store.runs.accept([{ run, payload: samplePayload(), owner: "one" }]);
    expect(await store.runs.find(run)).toEqual(run);
    expect(await claim(run.appNumber, "two")).toEqual([]);
    expect(await store.claims.finish([success(run, "one", 1)])).toEqual([run.id]);
  });

  test("a finished run has its final state, result, transcript and delivery", async () => {
    const [run] = (await queue(1)) as [Run];
    const [claimed] = await claim(run.appNumber, "one");
    const final = success(claimed!.run, "one", 1, {
      part: { firstEvent: 1, eventCount: 2, bytes: Buffer.from("chunks") },
      delivery: sampleDelivery(run),
    });
    // Fixed when it was accepted, whatever the end says.
    const batched = { ...final.run, batchSize: 32, batchReason: "full" } as const;
    const told = { ...final, run: { ...batched, isAsync: false, interruptions: 7, createdAt: 1 } };
    expect(await store.claims.finish([told])).toEqual([run.id]);
    expect(await store.runs.find(run)).toEqual(batched);
    const payload = await store.payloads.find(run);
    expect(payload).toMatchObject({ contentType: "application/json" });
    expect([text(payload?.input), text(payload?.result)]).toEqual(["input 0", `result of ${run.id}`]);
    expect(text((await store.transcripts.next({ ...run, after: 0 }))?.bytes)).toBe("chunks");
    const due = await store.deliveries.nextDueAt();
    expect(due).not.toBeNull();
  });

  test("who does not hold a run any more changes nothing, and the runs beside it are ended", async () => {
    const runs = await queue(4);
    const claimed = await claim(runs[0]!.appNumber, "one");
    const part = { firstEvent: 1, eventCount: 1, bytes: Buffer.from("p") };
    const ends = claimed.map(({ run, fence }, i) =>
      success(run, "one", fence, { part: i % 2 === 0 ? part : null, delivery: sampleDelivery(run) }),
    );
    const [fine, wrongFence, wrongOwner, fineToo] = ends as [
      FinishedClaim,
      FinishedClaim,
      FinishedClaim,
      FinishedClaim,
    ];
    const passed = await store.claims.finish([
      fine,
      { ...wrongFence, fence: 2 },
      { ...wrongOwner, owner: "two" },
      fineToo,
    ]);
    expect(passed).toEqual([runs[0]!.id, runs[3]!.id]);
    const states = await Promise.all(runs.map(async (run) => (await store.runs.find(run))?.state));
    expect(states).toEqual(["success", "running", "running", "success"]);
    const results = await Promise.all(
      runs.map(async (run) => text((await store.payloads.find(run))?.result)),
    );
    expect(results).toEqual([`result of ${runs[0]!.id}`, null, null, `result of ${runs[3]!.id}`]);
    const parts = await Promise.all(runs.map((run) => store.transcripts.next({ ...run, after: 0 })));
    expect(parts.map((found) => found !== null)).toEqual([true, false, false, false]);
    // Final is final.
    expect(await store.claims.finish([{ ...fine, run: { ...fine.run, state: "failure" } }])).toEqual([]);
    expect((await store.runs.find(runs[0]!))?.state).toBe("success");
    expect(await store.claims.finish([])).toEqual([]);
  });

  test("a caller's webhook secret leaves the payload when the run ends", async () => {
    const run = queuedRun({ appNumber: ++lastApp });
    const sealedSecret = Buffer.from("sealed");
    await store.runs.accept([{ run, payload: samplePayload({ sealedSecret }), owner: null }]);
    const [claimed] = await claim(run.appNumber, "one");
    expect(text(claimed?.payload.sealedSecret)).toBe("sealed");
    await store.claims.finish([success(claimed!.run, "one", 1)]);
    expect((await store.payloads.find(run))?.sealedSecret).toBeNull();
  });

  test("a run of which no result is kept keeps no input either", async () => {
    const runs = await queue(3);
    const claimed = await claim(runs[0]!.appNumber, "one");
    const before = await store.retention.usage();
    const ends = claimed.map(({ run, fence }) => success(run, "one", fence));
    await store.claims.finish([
      ends[0]!,
      { ...ends[1]!, result: null },
      { ...ends[2]!, result: null, fence: 9 },
    ]);
    const inputs = await Promise.all(runs.map(async (run) => text((await store.payloads.find(run))?.input)));
    expect(inputs).toEqual(["input 0", undefined, "input 2"]);
    const grown = `result of ${runs[0]!.id}`.length - "input 1".length;
    expect(await store.retention.usage()).toEqual({ runs: before.runs, bytes: before.bytes + grown });
  });

  test("a run becomes async for its holder alone", async () => {
    const run = queuedRun({ appNumber: ++lastApp, state: "running", isAsync: false });
    await store.runs.accept([{ run, payload: samplePayload({ input: null }), owner: "one" }]);
    await store.claims.setAsync({ ...run, fence: 1, owner: "two", payload: { input: Buffer.from("no") } });
    expect((await store.runs.find(run))?.isAsync).toBe(false);
    await store.claims.setAsync({ ...run, fence: 1, owner: "one", payload: { input: Buffer.from("in") } });
    expect(await store.runs.find(run)).toEqual({ ...run, isAsync: true });
  });

  test("a released run is queued again, and its next claim has a new fence and an empty transcript", async () => {
    const [run] = (await queue(1)) as [Run];
    const key = { appNumber: run.appNumber, id: run.id };
    await claim(run.appNumber, "one");
    await store.transcripts.write([{ ...key, firstEvent: 1, eventCount: 1, bytes: Buffer.from("old") }]);
    const released = { ...key, owner: "one", fence: 1, isInterruption: true, attempt: 2 };
    await store.claims.release([
      { ...released, owner: "two" },
      { ...released, fence: 2 },
    ]);
    expect((await store.runs.find(run))?.state).toBe("running");
    await store.claims.release([released]);
    expect(await store.runs.find(run)).toEqual({ ...run, attempt: 2, interruptions: 1 });
    const [again] = await claim(run.appNumber, "one");
    expect(again).toMatchObject({ fence: 2, run: { attempt: 2, interruptions: 1, state: "running" } });
    expect(await store.transcripts.next({ ...key, after: 0 })).toBeNull();
    expect(await store.claims.finish([success(again!.run, "one", 1)])).toEqual([]);
    await store.claims.release([{ ...released, fence: 2, isInterruption: false, attempt: 3 }]);
    expect(await store.runs.find(run)).toEqual({ ...run, attempt: 3, interruptions: 1 });
  });

  test("a queued run is ended by whoever comes first", async () => {
    const [a, b] = (await queue(2)) as [Run, Run];
    const cancelled = { ...a, state: "cancelled" as const, completedAt: NOW };
    const result = { bytes: Buffer.from("{}"), contentType: "application/json" };
    const end = { run: cancelled, result, delivery: sampleDelivery(a) };
    // Asked for twice at once, it ends once.
    expect(await store.claims.endQueued([end, end])).toHaveLength(1);
    expect(await store.runs.find(a)).toEqual(cancelled);
    expect(text((await store.payloads.find(a))?.result)).toBe("{}");
    expect((await claim(a.appNumber, "one")).map(({ run }) => run.id)).toEqual([b.id]);
    expect(await store.claims.endQueued([{ run: { ...b, state: "cancelled" }, result: null }])).toEqual([]);
    expect((await store.runs.find(b))?.state).toBe("running");
  });

  test("a dead owner's runs are queued again, and a living one's stay with it", async () => {
    const fresh = await openStore(await databases.fresh(kind));
    const runs = Array.from({ length: 4 }, () => queuedRun());
    await fresh.runs.accept(runs.map((run) => ({ run, payload: samplePayload(), owner: null })));
    const leases = { dead: -1, alive: LEASE_MS, revived: -1, self: -1 };
    for (const [owner, leaseMs] of Object.entries(leases)) {
      await signOfLife(fresh, owner, leaseMs);
      await fresh.claims.claim({ appNumber: 1, owner, limit: 1, maxBytes: 1 });
    }
    await signOfLife(fresh, "revived", LEASE_MS);
    expect(await fresh.claims.recover({ owner: "self", isAlone: false })).toBe(1);
    const states = async () =>
      await Promise.all(
        runs.map(async (run) => {
          const { state, interruptions } = (await fresh.runs.find(run))!;
          return `${state} ${interruptions}`;
        }),
      );
    expect(await states()).toEqual(["queued 1", "running 0", "running 0", "running 0"]);
    // A service that is alone knows that every other owner is dead.
    expect(await fresh.claims.recover({ owner: "new", isAlone: true })).toBe(3);
    expect(await states()).toEqual(["queued 1", "queued 1", "queued 1", "queued 1"]);
    await fresh.close();
  });

  test("what was accepted is there when the store is opened again", async () => {
    const own = await databases.fresh(kind);
    const before = await openStore(own);
    const run = queuedRun();
    await before.runs.accept([{ run, payload: samplePayload(), owner: null }]);
    await before.close();
    const after = await openStore(own);
    expect(await after.runs.find(run)).toEqual(run);
    expect(text((await after.payloads.find(run))?.input)).toBe('{"a":1}');
    await after.close();
  });

  describe("idempotency keys", () => {
    const hash = (name: string) => createHash("sha256").update(name).digest();
    const keyed = (key: string, request: string, now = NOW, run = queuedRun({ appNumber: 900 })) => ({
      accepted: { run, payload: samplePayload(), owner: null },
      keyHash: hash(key),
      fingerprint: hash(request),
      now,
      keptMs: 1_000,
    });

    test("a key stands for the run it came with first", async () => {
      const first = keyed("a", "request");
      expect(await store.runs.acceptKeyed(first)).toEqual({ kind: "accepted" });
      const again = keyed("a", "request", NOW + 999);
      expect(await store.runs.acceptKeyed(again)).toEqual({ kind: "same", runId: first.accepted.run.id });
      expect(await store.runs.acceptKeyed(keyed("a", "another request"))).toEqual({ kind: "different" });
      expect(await store.runs.find(again.accepted.run)).toBeNull();
      expect(await store.payloads.find(again.accepted.run)).toBeNull();
      const elsewhere = keyed("a", "another request", NOW, queuedRun({ appNumber: 901 }));
      expect(await store.runs.acceptKeyed(elsewhere)).toEqual({ kind: "accepted" });
      const found = await store.keys.find({ appNumber: 900, keyHash: hash("a"), since: NOW - 1 });
      expect(found?.runId).toBe(first.accepted.run.id);
      expect(Buffer.from(found!.fingerprint)).toEqual(hash("request"));
      expect(await store.keys.find({ appNumber: 900, keyHash: hash("a"), since: NOW })).toBeNull();
    });

    test("a key that has been kept long enough is free", async () => {
      await store.runs.acceptKeyed(keyed("b", "request"));
      const later = keyed("b", "another request", NOW + 1_000);
      expect(await store.runs.acceptKeyed(later)).toEqual({ kind: "accepted" });
      expect(await store.runs.find(later.accepted.run)).toEqual(later.accepted.run);
    });

    test("of many with one key at the same moment a single one is accepted", async () => {
      const results = await Promise.all(
        Array.from({ length: 12 }, () => store.runs.acceptKeyed(keyed("c", "request"))),
      );
      expect(results.filter(({ kind: outcome }) => outcome === "accepted")).toHaveLength(1);
      const told = results.flatMap((result) => (result.kind === "same" ? result.runId : []));
      expect(told).toHaveLength(11);
      expect(new Set(told).size).toBe(1);
    });

    test("a key is forgotten for the run that it stands for, and for no other", async () => {
      const first = keyed("e", "request");
      await store.runs.acceptKeyed(first);
      const key = { appNumber: 900, keyHash: hash("e") };
      await store.keys.forget({ ...key, runId: queuedRun().id });
      expect(await store.keys.find({ ...key, since: 0 })).not.toBeNull();
      await store.keys.forget({ ...key, runId: first.accepted.run.id });
      expect(await store.keys.find({ ...key, since: 0 })).toBeNull();
    });

    test("a keyed run with an owner is running", async () => {
      const run = queuedRun({ appNumber: 902, state: "running" });
      const input = keyed("d", "request", NOW, run);
      await store.runs.acceptKeyed({ ...input, accepted: { ...input.accepted, owner: "one" } });
      expect(await claim(902, "two")).toEqual([]);
      expect(await store.claims.finish([success(run, "one", 1)])).toEqual([run.id]);
    });
  });
});
