import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { uuidText } from "../../../src/kit/ids.ts";
import type { Run } from "../../../src/model/run.ts";
import { type EndedRun, packEnded } from "../../../src/store/runs/ended-runs.ts";
import type { Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { openOneThreadStore } from "../../support/one-thread-store.ts";
import { insertForwarded } from "../../support/forwarded-runs.ts";
import { queuedRun, sampleDelivery, sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);
const INPUT = Buffer.alloc(10, "i");
const RESULT = Buffer.alloc(100, "r");
const PART = { firstEvent: 1, eventCount: 1, bytes: Buffer.alloc(1_000, "p") };

let lastId = 0;
/** A run's id of that time; those of the service itself never go back. */
function idAt(at: number): string {
  const bytes = Buffer.alloc(16);
  bytes.writeUIntBE(at, 0, 6);
  bytes.writeUInt32BE(++lastId, 12);
  return uuidText(bytes);
}

describe.each(DATABASE_KINDS)("retention on %s", (kind) => {
  let store: Store;
  beforeEach(async () => {
    store = await openOneThreadStore(await databases.fresh(kind));
  });
  afterEach(async () => {
    await store.close();
  });

  /** A run of that time that ended at once, with an input, a result and a part of a transcript. */
  function ended(at: number, fields: Partial<Run> = {}, kept: Partial<EndedRun> = {}): EndedRun {
    const run = sampleRun({ id: idAt(at), createdAt: at, completedAt: at, updatedAt: at, ...fields });
    const payload = samplePayload({ input: INPUT, result: RESULT });
    return sampleEnd(run, { payload, part: PART, ...kept });
  }
  async function insert(...ends: EndedRun[]): Promise<Run[]> {
    await store.runs.insertFinished([packEnded(ends)]);
    return ends.map(({ run }) => run);
  }
  const contents = async (run: Run) =>
    [
      (await store.payloads.find(run)) ? "payload" : "",
      (await store.transcripts.next({ ...run, after: 0 })) ? "transcript" : "",
      (await store.runs.find(run)) ? "record" : "",
    ]
      .filter(Boolean)
      .join(" ");

  test("expired payloads and transcripts go, records stay, and so does what is younger or of another app", async () => {
    const [old, other, young] = await insert(
      ended(NOW),
      ended(NOW + 1, { appNumber: 2 }),
      ended(NOW + 5_000),
    );
    expect(await store.retention.usage()).toEqual({ runs: 3, bytes: 3 * 1_110 });
    expect(await store.retention.expire({ appNumber: 1, cutoff: NOW + 1_000, limit: 100 })).toBe(2);
    expect(await contents(old!)).toBe("record");
    expect(await contents(other!)).toBe("payload transcript record");
    expect(await contents(young!)).toBe("payload transcript record");
    expect(await store.retention.usage()).toEqual({ runs: 3, bytes: 2 * 1_110 });
    expect(await store.retention.expire({ appNumber: 1, cutoff: NOW + 1_000, limit: 100 })).toBe(0);
  });

  test("an old run that has not ended, or only lately, keeps all it has", async () => {
    const queued = queuedRun({ id: idAt(NOW), createdAt: NOW });
    await store.runs.accept([{ run: queued, payload: samplePayload(), owner: null }]);
    const [late] = await insert(ended(NOW, { completedAt: NOW + 2_000 }));
    expect(await store.retention.expire({ appNumber: 1, cutoff: NOW + 1_000, limit: 100 })).toBe(0);
    expect(await contents(queued)).toBe("payload record");
    expect(await contents(late!)).toBe("payload transcript record");
  });

  test("what was left of a run that has no record expires by the time of its id", async () => {
    const key = { appNumber: 1, id: idAt(NOW) };
    await store.transcripts.write([{ ...key, ...PART }]);
    expect(await store.retention.expire({ appNumber: 1, cutoff: NOW - 1_000, limit: 100 })).toBe(0);
    expect(await store.retention.expire({ appNumber: 1, cutoff: NOW + 1_000, limit: 100 })).toBe(1);
    expect(await store.transcripts.next({ ...key, after: 0 })).toBeNull();
  });

  test("no step removes more than it may", async () => {
    await insert(...Array.from({ length: 10 }, (_, i) => ended(NOW + i)));
    const expire = () => store.retention.expire({ appNumber: 1, cutoff: NOW + 1_000, limit: 7 });
    expect([await expire(), await expire(), await expire(), await expire()]).toEqual([7, 7, 6, 0]);
    expect(await store.retention.usage()).toEqual({ runs: 10, bytes: 0 });
    const remove = () => store.retention.removeRuns({ cutoff: NOW + 1_000, limit: 6 });
    expect([await remove(), await remove(), await remove()]).toEqual([6, 4, 0]);
    expect(await store.retention.usage()).toEqual({ runs: 0, bytes: 0 });
  });

  /** A run of a project's app whose response is on its way, or has arrived. */
  async function forwarded(at: number, state: "pending" | "delivered"): Promise<Run> {
    await store.projects.insert({ id: "p-test", name: "test", createdAt: NOW });
    const app = await store.apps.insertOrFind({ projectId: "p-test", name: "a", createdAt: NOW });
    const { run, payload } = ended(at, { appNumber: app.number, webhookState: "pending" });
    const delivery = sampleDelivery(run, { nextAt: at, createdAt: at });
    await insertForwarded(store, [{ run, payload, delivery }]);
    if (state === "delivered") {
      await store.deliveries.claimDue({ owner: "one", now: at, limit: 1 });
      const attempt = {
        number: 1,
        startedAt: at,
        durationMs: 1,
        requestHeaders: {},
        status: 200,
        error: null,
        nextAt: null,
      };
      await store.deliveries.recordAttempt({ id: run.id, owner: "one", attempt, state, now: at });
    }
    return run;
  }
  const bodyOf = async ({ id }: Run) => (await store.deliveries.find({ projectId: "p-test", id }))?.body;

  verifies(
    "webhook.body-kept",
    "a pending delivery keeps its body and its run, an ended one does not",
    async () => {
      const delivered = await forwarded(NOW, "delivered");
      const pending = await forwarded(NOW + 1, "pending");
      const { appNumber } = pending;
      // Two payloads and a body.
      expect(await store.retention.expire({ appNumber, cutoff: NOW + 1_000, limit: 100 })).toBe(3);
      expect(await bodyOf(delivered)).toBeNull();
      expect(await bodyOf(pending)).not.toBeNull();
      expect(await store.deliveries.redeliver({ projectId: "p-test", ids: [delivered.id], now: NOW })).toBe(
        0,
      );

      expect(await store.retention.removeDeliveries({ before: NOW, limit: 100 })).toBe(0);
      expect(await store.retention.removeRuns({ cutoff: NOW + 1_000, limit: 100 })).toBe(1);
      expect(await store.retention.removeOldest({ limit: 100, keep: "nothing" })).toBe(0);
      expect(await contents(pending)).toBe("record");
      expect(await contents(delivered)).toBe("");
      expect(await store.deliveries.attempts(delivered.id)).toEqual([]);
      expect(await store.deliveries.list({ projectId: "p-test", limit: 9 })).toHaveLength(1);
    },
  );

  test("ended deliveries are removed with their attempts, pending ones stay", async () => {
    const delivered = await forwarded(NOW, "delivered");
    await forwarded(NOW + 1, "pending");
    expect(await store.retention.removeDeliveries({ before: NOW + 1_000, limit: 100 })).toBe(1);
    expect(await store.deliveries.attempts(delivered.id)).toEqual([]);
    expect(await store.deliveries.list({ projectId: "p-test", limit: 9 })).toHaveLength(1);
    expect(await contents(delivered)).toContain("record");
  });

  test("old runs go whole, of every app, but not those that are unfinished", async () => {
    const queued = queuedRun({ id: idAt(NOW), createdAt: NOW });
    await store.runs.accept([{ run: queued, payload: samplePayload({ input: INPUT }), owner: null }]);
    const runs = await insert(
      ended(NOW, { appNumber: 1 }),
      ended(NOW + 1, { appNumber: 2 }),
      ended(NOW + 2, { appNumber: 9 }),
      ended(NOW + 5_000, { appNumber: 9 }),
    );
    expect(await store.retention.removeRuns({ cutoff: NOW + 1_000, limit: 100 })).toBe(3);
    expect(await Promise.all(runs.map(contents))).toEqual(["", "", "", "payload transcript record"]);
    expect(await contents(queued)).toBe("payload record");
    expect(await store.retention.usage()).toEqual({ runs: 2, bytes: 1_110 + 10 });
  });

  test("the oldest runs go first, whichever app they are of", async () => {
    const apps = [3, 1, 1, 2, 3, 3, 3, 1, 2, 2];
    const runs = await insert(...apps.map((appNumber, i) => ended(NOW + i, { appNumber })));
    const left = async () => (await Promise.all(runs.map(contents))).map((kept) => kept.split(" ").length);
    expect(await store.retention.removeOldest({ limit: 3, keep: "record" })).toBe(3);
    expect(await left()).toEqual([1, 1, 1, 3, 3, 3, 3, 3, 3, 3]);
    expect(await store.retention.removeOldest({ limit: 2, keep: "record" })).toBe(2);
    expect(await left()).toEqual([1, 1, 1, 1, 1, 3, 3, 3, 3, 3]);
    expect(await store.retention.removeOldest({ limit: 7, keep: "nothing" })).toBe(7);
    const kept = await Promise.all(runs.map(contents));
    expect(kept.map(Boolean)).toEqual([...Array<boolean>(7).fill(false), true, true, true]);
    expect(await store.retention.usage()).toEqual({ runs: 3, bytes: 3 * 1_110 });
    expect(await store.retention.removeOldest({ limit: 100, keep: "record" })).toBe(3);
    expect(await store.retention.removeOldest({ limit: 100, keep: "record" })).toBe(0);
    expect(await store.retention.usage()).toEqual({ runs: 3, bytes: 0 });
  });

  test("a run that has only a transcript, or several parts of one, is removed once", async () => {
    const [run] = await insert(ended(NOW, {}, { payload: null }));
    await store.transcripts.write([2, 3, 4].map((firstEvent) => ({ ...run!, ...PART, firstEvent })));
    expect(await store.retention.usage()).toEqual({ runs: 1, bytes: 4_000 });
    expect(await store.retention.removeOldest({ limit: 2, keep: "record" })).toBe(1);
    expect(await contents(run!)).toBe("record");
    expect(await store.retention.usage()).toEqual({ runs: 1, bytes: 0 });
  });

  test("an unfinished run, and the transcript of one that has no record yet, are never the oldest", async () => {
    const queued = queuedRun({ id: idAt(NOW), createdAt: NOW });
    await store.runs.accept([{ run: queued, payload: samplePayload(), owner: null }]);
    const live = { appNumber: 5, id: idAt(NOW) };
    await store.transcripts.write([{ ...live, ...PART }]);
    for (const keep of ["record", "nothing"] as const)
      expect(await store.retention.removeOldest({ limit: 100, keep })).toBe(0);
    expect(await contents(queued)).toBe("payload record");
    expect(await store.transcripts.next({ ...live, after: 0 })).not.toBeNull();
  });

  test("idempotency keys are removed by age", async () => {
    for (let i = 0; i < 5; i++) {
      await store.runs.acceptKeyed({
        accepted: { run: queuedRun(), payload: samplePayload(), owner: null },
        keyHash: Buffer.from([i]),
        fingerprint: Buffer.from([i]),
        now: NOW + i,
        keptMs: 1_000,
      });
    }
    const remove = () => store.retention.removeKeys({ before: NOW + 3, limit: 2 });
    expect([await remove(), await remove(), await remove()]).toEqual([2, 1, 0]);
    const find = async (i: number) =>
      (await store.keys.find({ appNumber: 1, keyHash: Buffer.from([i]), since: 0 })) !== null;
    expect(await Promise.all([0, 1, 2, 3, 4].map(find))).toEqual([false, false, false, true, true]);
  });
});
