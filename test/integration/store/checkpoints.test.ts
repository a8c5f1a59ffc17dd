import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Run, TranscriptPart } from "../../../src/model/run.ts";
import type { CheckpointWrite } from "../../../src/store/runs/checkpoints.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);
const ALL = { limit: 100, maxBytes: 10_000 };

const partOf = (firstEvent: number, eventCount: number, text = "part"): TranscriptPart => ({
  firstEvent,
  eventCount,
  bytes: Buffer.from(text),
});

describe.each(DATABASE_KINDS)("checkpoints on %s", (kind) => {
  let store: Store;
  let lastApp = 0;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  /** Runs of an app of their own that one service has claimed. */
  async function claimedRuns(count: number): Promise<Run[]> {
    const appNumber = ++lastApp;
    const runs = Array.from({ length: count }, () => queuedRun({ appNumber }));
    await store.runs.accept(runs.map((run) => ({ run, payload: samplePayload(), owner: null })));
    await claim(appNumber);
    return runs;
  }

  const claim = async (appNumber: number, limits: Partial<typeof ALL> = {}) =>
    (await store.claims.claim({ appNumber, owner: "one", ...ALL, ...limits })).runs;

  const keyOf = ({ appNumber, id }: Run) => ({ appNumber, id });

  const write = (run: Run, told: Partial<CheckpointWrite> = {}): CheckpointWrite => ({
    ...keyOf(run),
    fence: 1,
    owner: "one",
    part: null,
    checkpoint: null,
    progress: null,
    ...told,
  });

  const made = (sent: number, json: string, attempt = 1) => ({
    value: Buffer.from(json),
    sent,
    attempt,
    at: NOW + sent,
  });

  const release = async (run: Run, fence = 1): Promise<void> =>
    await store.claims.release([
      { ...keyOf(run), owner: "one", fence, isInterruption: false, attempt: fence + 1 },
    ]);

  const usedBytes = async (): Promise<number> => (await store.retention.usage()).bytes;

  verifies("checkpoint.next-attempt", "the next claim gives the last one, and what is stored", async () => {
    const [run, other] = (await claimedRuns(2)) as [Run, Run];
    const first = write(run, { part: partOf(1, 3), checkpoint: made(3, "[1]") });
    expect(await store.checkpoints.write([first])).toEqual([run.id]);
    const second = write(run, { part: partOf(4, 2, "more"), checkpoint: made(4, '{"n":2}') });
    expect(await store.checkpoints.write([second, write(other, { part: partOf(1, 1) })])).toEqual([
      run.id,
      other.id,
    ]);
    expect(await store.checkpoints.find(keyOf(run))).toEqual({
      progress: null,
      checkpoint: { sent: 4, attempt: 1, at: NOW + 4 },
    });
    await release(run);
    await release(other);
    const [again, anew] = await claim(run.appNumber);
    expect(again).toMatchObject({ storedEvents: 5, storedBytes: 8, fence: 2 });
    expect(again?.checkpoint).toMatchObject({ sent: 4, attempt: 1, at: NOW + 4 });
    expect(Buffer.from(again!.checkpoint!.value).toString()).toBe('{"n":2}');
    // Without a checkpoint, its chunks are gone.
    expect(anew).toMatchObject({ storedEvents: 0, storedBytes: 0, checkpoint: null });
    expect(await store.transcripts.last(keyOf(other))).toBe(0);
    expect(await store.transcripts.last(keyOf(run))).toBe(5);
  });

  verifies("checkpoint.fenced", "a service that has lost the run stores nothing of it", async () => {
    const [run, other] = (await claimedRuns(2)) as [Run, Run];
    await release(run);
    const late = write(run, { part: partOf(1, 1), checkpoint: made(1, "1") });
    const good = write(other, { part: partOf(1, 1), progress: { fraction: 0.5, message: "half", at: NOW } });
    expect(await store.checkpoints.write([late, good])).toEqual([other.id]);
    await claim(run.appNumber);
    expect(await store.checkpoints.write([late, { ...late, fence: 2, owner: "two" }])).toEqual([]);
    expect(await store.checkpoints.find(keyOf(run))).toEqual({ progress: null, checkpoint: null });
    expect(await store.transcripts.last(keyOf(run))).toBe(0);
    expect(await store.checkpoints.find(keyOf(other))).toEqual({
      progress: { fraction: 0.5, message: "half", at: NOW },
      checkpoint: null,
    });
  });

  test("a write that is repeated after its answer was lost changes nothing", async () => {
    const [run] = (await claimedRuns(1)) as [Run];
    const before = await usedBytes();
    const told = write(run, { part: partOf(1, 2), checkpoint: made(2, "[1,2]") });
    await store.checkpoints.write([told]);
    await store.checkpoints.write([told]);
    expect((await usedBytes()) - before).toBe("part".length + "[1,2]".length);
    expect(await store.transcripts.last(keyOf(run))).toBe(2);
  });

  test("a part takes the place of the one that it begins with, and counts once", async () => {
    const [run] = (await claimedRuns(1)) as [Run];
    const before = await usedBytes();
    await store.checkpoints.write([write(run, { part: partOf(1, 2, "ab"), checkpoint: made(2, "1") })]);
    const grown = write(run, { part: partOf(1, 3, "abc"), isGrown: true });
    await store.checkpoints.write([grown]);
    await store.checkpoints.write([grown]);
    expect((await usedBytes()) - before).toBe("abc1".length);
    const part = await store.transcripts.next({ ...keyOf(run), after: 2 });
    expect([part?.firstEvent, part?.eventCount, Buffer.from(part!.bytes).toString()]).toEqual([1, 3, "abc"]);
    expect(await store.transcripts.next({ ...keyOf(run), after: 3 })).toBeNull();
  });

  test("checkpoints and progress of a run leave each other alone", async () => {
    const [run] = (await claimedRuns(1)) as [Run];
    const progress = { fraction: null, message: "loading\0", at: NOW };
    await store.checkpoints.write([write(run, { checkpoint: made(0, "1") })]);
    await store.checkpoints.write([write(run, { progress })]);
    expect(await store.checkpoints.find(keyOf(run))).toEqual({
      progress: { ...progress, message: "loading\uFFFD" },
      checkpoint: { sent: 0, attempt: 1, at: NOW },
    });
  });

  test("as many are read at once as fit; the others wait again", async () => {
    const runs = await claimedRuns(3);
    const large = JSON.stringify("x".repeat(6_000));
    await store.checkpoints.write(runs.map((run) => write(run, { checkpoint: made(0, large) })));
    for (const run of runs) await release(run);
    const { appNumber } = runs[0]!;
    const first = await store.claims.claim({ appNumber, owner: "one", ...ALL });
    expect([first.runs.length, first.hasMore]).toEqual([1, true]);
    expect(await claim(appNumber, { maxBytes: 1 })).toHaveLength(1);
    expect(await claim(appNumber)).toHaveLength(1);
    expect(await claim(appNumber)).toHaveLength(0);
  });

  test("one whose chunks an earlier release has removed is void", async () => {
    const [run] = (await claimedRuns(1)) as [Run];
    await store.checkpoints.write([write(run, { part: partOf(1, 5), checkpoint: made(5, "1") })]);
    await store.transcripts.trim({ ...keyOf(run), before: 100 });
    await release(run);
    const [again] = await claim(run.appNumber);
    expect(again).toMatchObject({ checkpoint: null, storedEvents: 0 });
    expect(await store.checkpoints.find(keyOf(run))).toEqual({ progress: null, checkpoint: null });
  });

  verifies(
    "checkpoint.kept",
    "they count as stored, and go with what else is stored of the run",
    async () => {
      const before = await usedBytes();
      const [run, other] = (await claimedRuns(2)) as [Run, Run];
      const accepted = await usedBytes();
      const value = JSON.stringify("x".repeat(1_000));
      await store.checkpoints.write([
        write(run, { checkpoint: made(0, value) }),
        write(other, { checkpoint: made(0, value) }),
      ]);
      await store.checkpoints.write([write(run, { checkpoint: made(0, "1") })]);
      expect((await usedBytes()) - accepted).toBe(value.length + 1);
      const end = { fence: 1, owner: "one", part: null, delivery: null };
      const ended = (of: Run): Run => ({ ...of, state: "success", statusCode: 200, completedAt: NOW });
      // Of one nothing is kept.
      await store.claims.finish([{ ...end, run: ended(run), result: null }]);
      await store.claims.finish([{ ...end, run: ended(other), result: { bytes: null, contentType: null } }]);
      expect((await store.checkpoints.find(keyOf(run))).checkpoint).toBeNull();
      expect((await store.checkpoints.find(keyOf(other))).checkpoint).not.toBeNull();
      const cutoff = Date.now() + 60_000;
      while ((await store.retention.expire({ appNumber: run.appNumber, cutoff, limit: 100 })) > 0);
      expect((await store.checkpoints.find(keyOf(other))).checkpoint).toBeNull();
      expect(await usedBytes()).toBe(before);
    },
  );
});
