import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import type { LineBatch } from "../../../src/model/line-batch.ts";
import type { Run } from "../../../src/model/run.ts";
import { BatchUpload } from "../../../src/runs/batches/upload.ts";
import { ALL_TIMES, type FedLine } from "../../../src/store/batches/batch-lines.ts";
import { MAX_OPEN_BATCHES, type NewLineBatch } from "../../../src/store/batches/line-batches.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import type { Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { openOneThreadStore } from "../../support/one-thread-store.ts";
import { idAt, queuedRun, sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);
const DAY_MS = 24 * 3_600_000;
const RATE = { perSecond: 1, at: NOW };
const DRAFT = {
  functionName: "run",
  ip: null,
  accountId: "sa-one",
  user: null,
  trace: { traceId: "1".repeat(32), parentId: null, spanId: null, isSampled: true, state: "a=1" },
  keyHash: null,
  fingerprint: null,
  wishes: null,
  webhookEndpoint: null,
  sealedSecret: null,
  retryOf: null,
  createdAt: NOW,
};

describe.each(DATABASE_KINDS)("batches of lines on %s", (kind) => {
  let store: Store;
  let appNumber: number;
  beforeEach(async () => {
    store = await openOneThreadStore(await databases.fresh(kind));
    await store.projects.insert({ id: "p-lines", name: "one", createdAt: NOW });
    ({ number: appNumber } = await store.apps.insertOrFind({
      projectId: "p-lines",
      name: "a",
      createdAt: NOW,
    }));
  });
  afterEach(async () => {
    await store.close();
  });

  const draft = (fields: Partial<NewLineBatch> = {}): NewLineBatch => ({
    ...DRAFT,
    id: idAt(NOW),
    appNumber,
    ...fields,
  });
  const insert = async (fields: Partial<NewLineBatch> = {}, since = 0): Promise<LineBatch | null> => {
    const made = await store.lineBatches.insert({ ...draft(fields), since });
    return typeof made === "string" ? null : made;
  };
  const find = async ({ id }: Pick<LineBatch, "id">): Promise<LineBatch> =>
    (await store.lineBatches.find({ appNumber, id }))!;
  const block = (first: number, lines: readonly string[]) => {
    const bytes = Buffer.from(lines.join("\n"));
    return { first, lineCount: lines.length, bytes, digest: bytes };
  };
  const append = async (batch: LineBatch, first: number, lines: readonly string[], fence = batch.fence) =>
    await store.lineBatches.append({ number: batch.number, fence, block: block(first, lines), now: NOW });
  /** One whose lines are all stored. */
  async function started(lines: readonly string[]): Promise<LineBatch> {
    const batch = (await insert())!;
    await append(batch, 0, lines);
    await store.lineBatches.start({ number: batch.number, fence: 1, now: NOW });
    return await find(batch);
  }
  const fedRun = (line: number, run: Run): FedLine => ({
    line,
    label: `"${line}"`,
    accepted: { run, payload: samplePayload({ input: Buffer.from("{}") }), owner: null },
  });
  const query = ({ number }: LineBatch) => ({ number, appNumber, now: NOW, limit: 100 });

  test("lines are stored once and in order, by the last connection alone", async () => {
    const batch = (await insert())!;
    expect(await append(batch, 0, ["1", "2"])).toBe(true);
    expect(await append(batch, 0, ["1", "2"])).toBe(false);
    expect(await append(batch, 3, ["4"])).toBe(false);
    const resumed = (await store.lineBatches.resume({ number: batch.number, now: NOW }))!;
    expect(resumed).toMatchObject({ fence: 2, total: 2, totalBytes: 3 });
    expect(await append(batch, 2, ["3"])).toBe(false);
    expect(await append(resumed, 2, ["3"])).toBe(true);
    expect(await store.lineBatches.start({ number: batch.number, fence: 1, now: NOW })).toBe(false);
    expect(await store.lineBatches.start({ number: batch.number, fence: 2, now: NOW })).toBe(true);
    expect(await append(resumed, 3, ["4"])).toBe(false);
    expect(await store.lineBatches.resume({ number: batch.number, now: NOW })).toBeNull();
    expect(await find(batch)).toMatchObject({ state: "running", total: 3 });
    const second = await store.lineBatches.block({ number: batch.number, line: 2 });
    expect(second).toMatchObject({ first: 2, lineCount: 1 });
  });

  test("a key belongs to one batch, for a while", async () => {
    const keyHash = Buffer.from("key");
    const first = (await insert({ keyHash, fingerprint: keyHash }))!;
    expect(await insert({ id: idAt(NOW), keyHash })).toBeNull();
    expect(await store.lineBatches.findByKey({ appNumber, keyHash, since: 0 })).toMatchObject({
      id: first.id,
    });
    await append(first, 0, ["1"]);
    await store.lineBatches.start({ number: first.number, fence: 1, now: NOW });
    expect(await store.lineBatches.findByKey({ appNumber, keyHash, since: NOW })).toBeNull();
    expect(await insert({ id: idAt(NOW), keyHash }, NOW)).not.toBeNull();
    expect((await find(first)).keyHash).toBeNull();
  });

  test("lines are fed once, and counted once when they have ended, in that order", async () => {
    const batch = await started(["0", "1", "2", "3"]);
    const before = (await store.retention.usage()).bytes;
    const a = queuedRun({ appNumber });
    const b = queuedRun({ appNumber });
    const lines: FedLine[] = [
      fedRun(0, a),
      { line: 1, label: null, end: { state: "failure", errorCode: "bad_request", errorMessage: "Bad." } },
      fedRun(2, { ...b, dueAt: NOW + 5 }),
    ];
    const feed = { number: batch.number, fed: 0, lines, doneBefore: 3 };
    expect(await store.batchLines.feed(feed)).toBe(true);
    expect(await store.batchLines.feed(feed)).toBe(false);
    expect(await store.runs.find(a)).toMatchObject({ state: "queued" });
    // The lines are stored as inputs now, and their block stays for the last one.
    expect((await store.retention.usage()).bytes).toBe(before + 4);
    expect(await store.batchLines.openCount(query(batch))).toEqual({ open: 2, over: 1 });
    const collect = { ...query(batch), ended: 0, rate: RATE };
    expect(await store.batchLines.collect(collect)).toBe(1);
    expect(await store.batchLines.collect(collect)).toBe(0);
    await store.batchLines.feed({ number: batch.number, fed: 3, lines: [end(3)], doneBefore: 4 });
    expect(await store.lineBatches.block({ number: batch.number, line: 3 })).toBeNull();
    expect(await store.batchLines.collect({ ...collect, ended: 1 })).toBe(1);
    expect(await store.lineBatches.end({ number: batch.number, now: NOW, delivery: null })).toBe(false);
    const late = { ...query(batch), now: NOW + 5 };
    expect(await store.batchLines.openCount(late)).toEqual({ open: 2, over: 0 });
    const cancelled = [b, a].map(
      (run, i) => ({ ...run, state: "cancelled", completedAt: NOW + i + 1 }) as const,
    );
    await store.claims.endQueued(cancelled.map((run) => ({ run, result: null })));
    expect(await store.batchLines.collect({ ...late, ended: 2, rate: RATE })).toBe(2);
    expect(await find(batch)).toMatchObject({ fed: 4, ended: 4, succeeded: 0, failed: 1 });
    const page = await store.batchLines.page({ number: batch.number, order: "finished", after: 0, limit: 9 });
    expect(page.map(({ line, place }) => [line, place])).toEqual([
      [1, 1],
      [3, 2],
      [2, 3],
      [0, 4],
    ]);
    expect(await store.batchLines.ofRun(a)).toEqual({ id: batch.id, line: 0 });
    expect(await store.lineBatches.end({ number: batch.number, now: NOW, delivery: null })).toBe(true);
    expect(await store.lineBatches.end({ number: batch.number, now: NOW, delivery: null })).toBe(false);
    expect(await find(batch)).toMatchObject({ state: "completed", completedAt: NOW });
  });

  const end = (line: number): FedLine => ({
    line,
    label: null,
    end: { state: "cancelled", errorCode: "cancelled", errorMessage: "Gone." },
  });

  verifies("batches.delayed", `a delayed line has no run until its time, on ${kind}`, async () => {
    const batch = await started(["0", "1", "2"]);
    const { number } = batch;
    const later = (line: number, at: number): FedLine => ({ line, label: `"${line}"`, delayedUntil: at });
    const feed = [later(0, NOW + 60_000), fedRun(1, queuedRun({ appNumber })), later(2, NOW + 30_000)];
    expect(await store.batchLines.feed({ number, fed: 0, lines: feed, doneBefore: 3 })).toBe(true);
    expect(await find(batch)).toMatchObject({ fed: 3, delayed: 2, ended: 0 });
    expect(await store.runs.list({ appNumber, limit: 9 })).toHaveLength(1);
    // They are not among those that may have ended, however late it is, and their block stays.
    const late = { ...query(batch), now: ALL_TIMES };
    expect(await store.batchLines.openCount(late)).toEqual({ open: 1, over: 0 });
    expect(await store.lineBatches.block({ number, line: 0 })).not.toBeNull();
    const due = async (until: number) => await store.delayedLines.due({ number, until, limit: 9 });
    expect(await due(NOW + 29_999)).toEqual([]);
    expect(await due(NOW + 30_000)).toEqual([2]);
    expect(await due(ALL_TIMES)).toEqual([2, 0]);
    const run = queuedRun({ appNumber });
    const first = { number, delayed: 2, lines: [fedRun(2, run)] };
    expect(await store.delayedLines.feed(first)).toBe(true);
    expect(await store.delayedLines.feed(first)).toBe(false);
    expect(await store.runs.find(run)).toMatchObject({ state: "queued" });
    expect(await store.batchLines.ofRun(run)).toEqual({ id: batch.id, line: 2 });
    expect(await due(ALL_TIMES)).toEqual([0]);
    expect(await store.batchLines.openCount(late)).toEqual({ open: 2, over: 0 });
    expect(await store.delayedLines.feed({ number, delayed: 1, lines: [end(0)] })).toBe(true);
    expect(await find(batch)).toMatchObject({ fed: 3, delayed: 0 });
    expect(await store.lineBatches.block({ number, line: 0 })).toBeNull();
    expect(await store.batchLines.openCount(late)).toEqual({ open: 3, over: 1 });
    expect(await store.batchLines.runningCounts([query(batch), { ...query(batch), number: -1 }])).toEqual(
      new Map([
        [number, 0],
        [-1, 0],
      ]),
    );
  });

  verifies(
    "batches.delayed",
    `a node that was away gives no delayed line a second run, on ${kind}`,
    async () => {
      const batch = await started(["0", "1"]);
      const { number } = batch;
      const delay = async (line: number) => {
        const lines = [{ line, label: null, delayedUntil: NOW } as const];
        expect(await store.batchLines.feed({ number, fed: line, lines, doneBefore: line + 1 })).toBe(true);
      };
      await delay(0);
      const [run, second] = [queuedRun({ appNumber }), queuedRun({ appNumber })];
      expect(await store.delayedLines.feed({ number, delayed: 1, lines: [fedRun(0, run)] })).toBe(true);
      // As many are delayed as when the other node read them.
      await delay(1);
      expect(await store.delayedLines.feed({ number, delayed: 1, lines: [fedRun(0, second)] })).toBe(false);
      expect(await store.runs.find(second)).toBeNull();
      expect(await store.batchLines.ofRun(run)).toEqual({ id: batch.id, line: 0 });
      expect(await find(batch)).toMatchObject({ fed: 2, delayed: 1 });
    },
  );

  test("cancelling is final: what is fed then, and what ends the batch", async () => {
    const batch = await started(["0"]);
    expect(await store.lineBatches.cancel({ number: batch.number, now: NOW })).toBe(true);
    expect(await store.lineBatches.cancel({ number: batch.number, now: NOW })).toBe(false);
    await store.batchLines.feed({ number: batch.number, fed: 0, lines: [end(0)], doneBefore: 1 });
    await store.batchLines.collect({ ...query(batch), ended: 0, rate: RATE });
    expect(await store.lineBatches.end({ number: batch.number, now: NOW, delivery: null })).toBe(true);
    expect(await find(batch)).toMatchObject({ state: "cancelled", failed: 0, ended: 1 });
    expect((await store.retention.usage()).bytes).toBe(0);
  });

  verifies("batches.kept", `nothing of a batch is removed until it has ended, on ${kind}`, async () => {
    const batch = await started(["0", "1"]);
    const run = queuedRun({ appNumber, id: idAt(NOW) });
    await store.batchLines.feed({ number: batch.number, fed: 0, lines: [fedRun(0, run)], doneBefore: 1 });
    const ended = { ...run, state: "failure", completedAt: NOW, updatedAt: NOW } as const;
    const result = { bytes: Buffer.from("result"), contentType: "application/json" };
    await store.claims.endQueued([{ run: ended, result }]);
    await store.batchLines.collect({ ...query(batch), ended: 0, rate: RATE });
    const removeAll = async (cutoff: number) => {
      await store.retention.expire({ appNumber, cutoff, limit: 10 });
      await store.retention.removeOldest({ limit: 10, keep: "record" });
      await store.retention.removeRuns({ cutoff, limit: 10 });
      await store.retention.removeOldest({ limit: 10, keep: "nothing" });
      await store.lineBatches.remove({ cutoff, limit: 10 });
    };
    // Of the app, but not of the batch: one that is older than it, one that came later, and one that still runs.
    const later = sampleEnd(sampleRun({ id: idAt(NOW + 5), appNumber, completedAt: NOW + 5 }));
    const waiting = queuedRun({ appNumber, id: idAt(NOW + 6) });
    await store.runs.insertFinished([packEnded([later])]);
    await store.runs.accept([{ run: waiting, payload: samplePayload(), owner: null }]);
    const older = sampleEnd(sampleRun({ id: idAt(NOW - 1), appNumber, completedAt: NOW - 1 }));
    await store.runs.insertFinished([packEnded([older])]);
    await removeAll(NOW + 40 * DAY_MS);
    expect(await store.runs.find(older.run)).toBeNull();
    expect(await store.runs.find(later.run)).toBeNull();
    expect(await store.runs.find(waiting)).not.toBeNull();
    expect(Buffer.from((await store.payloads.find(run))!.result!)).toEqual(result.bytes);
    expect(await store.runs.find(run)).not.toBeNull();
    await store.batchLines.feed({ number: batch.number, fed: 1, lines: [end(1)], doneBefore: 2 });
    await store.batchLines.collect({ ...query(batch), ended: 1, rate: RATE });
    const endedAt = NOW + 50 * DAY_MS;
    expect(await store.lineBatches.end({ number: batch.number, now: endedAt, delivery: null })).toBe(true);
    // The retention counts from the end of the batch.
    await store.retention.expire({ appNumber, cutoff: endedAt, limit: 10 });
    await store.retention.removeRuns({ cutoff: endedAt, limit: 10 });
    expect(await store.payloads.find(run)).not.toBeNull();
    await store.retention.expire({ appNumber, cutoff: endedAt + 1, limit: 10 });
    expect(await store.payloads.find(run)).toBeNull();
    await removeAll(endedAt + 1);
    expect(await store.runs.find(run)).toBeNull();
    expect(await store.lineBatches.find(batch)).toBeNull();
    expect(
      await store.batchLines.page({ number: batch.number, order: "input", after: -1, limit: 9 }),
    ).toEqual([]);
  });

  verifies("batches.caps", `runs beside an open batch are removed, oldest first, on ${kind}`, async () => {
    const batch = await started(["0", "1", "2"]);
    const ids = Array.from({ length: 6 }, (_, i) => idAt(NOW + i));
    // Lines and other runs by turns.
    for (const [i, id] of ids.entries()) {
      const at = NOW + 10 + i;
      if (i % 2 === 1) {
        await store.runs.insertFinished([
          packEnded([sampleEnd(sampleRun({ id, appNumber, completedAt: at }))]),
        ]);
        continue;
      }
      const run = queuedRun({ appNumber, id });
      const lines = [fedRun(i / 2, run)];
      await store.batchLines.feed({ number: batch.number, fed: i / 2, lines, doneBefore: 0 });
      const ended = { ...run, state: "failure", completedAt: at, updatedAt: at } as const;
      await store.claims.endQueued([{ run: ended, result: null }]);
    }
    const left = async () =>
      (await store.runs.list({ appNumber, limit: 9 })).map(({ id }) => ids.indexOf(id)).toReversed();
    expect(await store.retention.removeOldest({ limit: 1, keep: "nothing" })).toBe(1);
    expect(await left()).toEqual([0, 2, 3, 4, 5]);
    expect(await store.retention.removeOldest({ limit: 9, keep: "nothing" })).toBe(2);
    expect(await left()).toEqual([0, 2, 4]);
    expect(await store.retention.removeOldest({ limit: 9, keep: "nothing" })).toBe(0);
  });

  verifies(
    "batches.open",
    `an account has a bounded number of open batches of an app, on ${kind}`,
    async () => {
      for (let i = 0; i < MAX_OPEN_BATCHES; i++) expect(await insert()).not.toBeNull();
      expect(await store.lineBatches.insert({ ...draft(), since: 0 })).toBe("too_many");
      const parts = { store, steadyClock: systemClock, reserve: { refusal: null }, onStarted: () => {} };
      const upload = new BatchUpload(parts, draft(), null, 1_000);
      await upload.write(Buffer.from("{}\n"));
      await expect(upload.finish()).rejects.toMatchObject({ code: "too_many_in_flight", status: 429 });
      const other = (await insert({ accountId: "sa-other" }))!;
      await append(other, 0, ["1"]);
      const [first] = await store.lineBatches.open();
      await store.lineBatches.drop({ number: first!.number, now: NOW, delivery: null });
      expect(await insert()).not.toBeNull();
    },
  );

  verifies(
    "batches.full-disk",
    `an upload ends when the disk is full, and continues later, on ${kind}`,
    async () => {
      const reserve: { refusal: string | null } = { refusal: null };
      let starts = 0;
      const parts = { store, steadyClock: systemClock, reserve, onStarted: () => (starts += 1) };
      const keyHash = Buffer.from("key");
      const given = draft({ keyHash });
      const upload = new BatchUpload(parts, given, null, 1_000);
      const lines = Buffer.from('{"input":{}}\n'.repeat(5_000));
      await upload.write(lines);
      reserve.refusal = "The disk is full.";
      await expect(upload.finish()).rejects.toMatchObject({
        code: "storage_full",
        message: "The disk is full.",
      });
      const stored = await store.lineBatches.findByKey({ appNumber, keyHash, since: 0 });
      expect(stored).toMatchObject({ state: "uploading", total: 4_000 });
      reserve.refusal = null;
      const resumed = await store.lineBatches.resume({ number: stored!.number, now: NOW });
      const again = new BatchUpload(parts, given, resumed, 1_000);
      await again.write(lines);
      expect(await again.finish()).toMatchObject({ id: given.id, total: 5_000, state: "running" });
      expect(starts).toBe(1);
    },
  );
});
