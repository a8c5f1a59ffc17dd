import { afterAll, beforeAll, describe, expect } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { Run } from "../../../src/model/run.ts";
import { Sweeper, type SweeperParts } from "../../../src/runs/sweeper.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { insertForwarded } from "../../support/forwarded-runs.ts";
import { queuedRun, sampleDelivery, sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const HOUR_MS = 3600 * 1000;
const DAY_MS = 24 * HOUR_MS;
const NOW = Date.now();

describe.each(DATABASE_KINDS)("the sweeper on %s", (kind) => {
  let store: Store;
  let lastApp = 1_000;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  /** Ended runs of those ages, each with a payload and one part of a transcript. */
  async function endedAll(appNumber: number, agesMs: readonly number[]): Promise<Run[]> {
    const runs = agesMs.map((ageMs) => {
      const at = NOW - ageMs;
      const times = { createdAt: at, startedAt: at, completedAt: at + 5, updatedAt: at + 5 };
      return sampleRun({ id: agedId(ageMs), appNumber, ...times });
    });
    const part = { firstEvent: 1, eventCount: 1, bytes: Buffer.from([3, 0, 0, 0, 65]) };
    const ends = runs.map((run) => sampleEnd(run, { payload: samplePayload(), part }));
    await store.runs.insertFinished([packEnded(ends)]);
    return runs;
  }

  const ended = async (appNumber: number, ageMs: number): Promise<Run> =>
    (await endedAll(appNumber, [ageMs]))[0]!;

  const sweeper = (parts: Partial<SweeperParts>) =>
    new Sweeper({
      store,
      clock: { ...systemClock, now: () => NOW },
      log: createLog("silent"),
      maxRuns: 1_000_000,
      maxStorageBytes: 1_000_000_000,
      maxLogBytes: 1_000_000_000,
      recordRetentionMs: 30 * DAY_MS,
      auditRetentionMs: 365 * DAY_MS,
      retentions: () => [],
      isFirst: () => true,
      ...parts,
    });
  const sweep = (parts: Partial<SweeperParts>) => sweeper(parts).sweep();

  const hasRecord = async ({ appNumber, id }: Run) => (await store.runs.find({ appNumber, id })) !== null;
  const hasPayload = async ({ appNumber, id }: Run) =>
    (await store.payloads.find({ appNumber, id })) !== null;
  const hasTranscript = async ({ appNumber, id }: Run) =>
    (await store.transcripts.next({ appNumber, id, after: 0 })) !== null;

  verifies(
    "clock.steps",
    "a date that is wrong at the start or later removes nothing that is new",
    async () => {
      const appNumber = ++lastApp;
      const retentions = () => [{ appNumber, retentionMs: HOUR_MS, maxLogBytes: 1_000_000 }];
      const run = await ended(appNumber, 0);
      for (const [atStart, later] of [
        [40 * DAY_MS, 0],
        [0, 40 * DAY_MS],
      ] as const) {
        let aheadMs: number = atStart;
        const clock = { ...systemClock, now: () => NOW + aheadMs };
        const sweeping = sweeper({ clock, retentions });
        aheadMs = later;
        await sweeping.sweep();
      }
      expect([await hasRecord(run), await hasPayload(run), await hasTranscript(run)]).toEqual([
        true,
        true,
        true,
      ]);
    },
  );

  verifies(
    "clock.steps.kept",
    "when the clock is set by an hour, what was stored before and after stays for its time, and goes an hour later at most",
    async () => {
      for (const [before, after] of [
        [0, HOUR_MS],
        [0, -HOUR_MS],
        [HOUR_MS, 0],
        [-HOUR_MS, 0],
      ] as const) {
        const appNumber = ++lastApp;
        const retentions = () => [{ appNumber, retentionMs: 2 * HOUR_MS, maxLogBytes: 1_000_000 }];
        // Both are made now, by a clock that is set in between.
        const runs = await endedAll(appNumber, [-before, -after]);
        let aheadMs: number = before;
        let passedMs = 0;
        const clock = {
          ...systemClock,
          now: () => NOW + aheadMs + passedMs,
          monotonic: () => passedMs,
        };
        const recordRetentionMs = 4 * HOUR_MS;
        const sweeping = sweeper({ clock, retentions, recordRetentionMs });
        aheadMs = after;
        const kept = async (has: (run: Run) => Promise<boolean>) => await Promise.all(runs.map(has));
        passedMs = 1.9 * HOUR_MS;
        await sweeping.sweep();
        expect([before, after, await kept(hasPayload)]).toEqual([before, after, [true, true]]);
        passedMs = 3.1 * HOUR_MS;
        await sweeping.sweep();
        expect([before, after, await kept(hasPayload)]).toEqual([before, after, [false, false]]);
        passedMs = 3.9 * HOUR_MS;
        await sweeping.sweep();
        expect([before, after, await kept(hasRecord)]).toEqual([before, after, [true, true]]);
        passedMs = 5.1 * HOUR_MS;
        await sweeping.sweep();
        expect([before, after, await kept(hasRecord)]).toEqual([before, after, [false, false]]);
      }
    },
  );

  verifies(
    "kept.results",
    "inputs, results and transcripts go after the app's own result_retention, records stay",
    async () => {
      const appNumber = ++lastApp;
      const other = ++lastApp;
      const old = await ended(appNumber, 2 * HOUR_MS);
      const young = await ended(appNumber, HOUR_MS / 2);
      const elsewhere = await ended(other, 2 * HOUR_MS);
      await sweep({
        retentions: () => [
          { appNumber, retentionMs: HOUR_MS, maxLogBytes: 1_000_000 },
          { appNumber: other, retentionMs: DAY_MS, maxLogBytes: 1_000_000 },
        ],
      });
      expect([await hasPayload(old), await hasTranscript(old), await hasRecord(old)]).toEqual([
        false,
        false,
        true,
      ]);
      expect([await hasPayload(young), await hasTranscript(young)]).toEqual([true, true]);
      expect([await hasPayload(elsewhere), await hasTranscript(elsewhere)]).toEqual([true, true]);
    },
  );

  verifies(
    "kept.records",
    "records go after 30 days, however many, and with them what hangs on them",
    async () => {
      const appNumber = ++lastApp;
      const ages = Array.from({ length: 450 }, (_, i) => 31 * DAY_MS + i);
      const old = await endedAll(appNumber, ages);
      const young = await ended(appNumber, 29 * DAY_MS);
      await sweep({});
      // One after the other: together they would wait for a connection longer than the pool allows.
      for (const run of old) expect([await hasRecord(run), await hasTranscript(run)]).toEqual([false, false]);
      expect(await hasRecord(young)).toBe(true);
    },
  );

  verifies("retention.each-step", "what fails is told at the end, and all else is done", async () => {
    const [broken, healthy] = [++lastApp, ++lastApp];
    const old = await ended(healthy, 2 * HOUR_MS);
    const expired = await ended(healthy, 31 * DAY_MS);
    const retention: Store["retention"] = {
      ...store.retention,
      expire: async (expiry) => {
        if (expiry.appNumber === broken) throw new Error("a damaged page");
        return await store.retention.expire(expiry);
      },
      removeKeys: () => Promise.reject(new Error("another one")),
    };
    let keptCaps = 0;
    const usage = async () => {
      keptCaps += 1;
      return await store.retention.usage();
    };
    const apps = [broken, healthy].map((appNumber) => ({
      appNumber,
      retentionMs: HOUR_MS,
      maxLogBytes: 1e6,
    }));
    const failure = await sweep({
      store: { ...store, retention: { ...retention, usage } },
      retentions: () => apps,
    }).catch((error: unknown) => error);
    expect((failure as AggregateError).errors.map(String)).toEqual([
      "Error: a damaged page",
      "Error: another one",
    ]);
    expect([await hasPayload(old), await hasRecord(expired), keptCaps]).toEqual([false, false, 2]);
  });

  verifies(
    ["settings.caps.effect", "settings.caps.keep-open"],
    "past a cap the oldest finished go first, never an unfinished run or an open delivery",
    async () => {
      await store.projects.insert({ id: "p-sweeper1", name: "sweeper", createdAt: NOW });
      const app = await store.apps.insertOrFind({ projectId: "p-sweeper1", name: "app", createdAt: NOW });
      const appNumber = app.number;
      const waiting = queuedRun({ id: agedId(29.9 * DAY_MS), appNumber });
      await store.runs.accept([{ run: waiting, payload: samplePayload(), owner: null }]);
      const url = "https://example.test/hook";
      const webhook = sampleRun({
        id: agedId(29.8 * DAY_MS),
        appNumber,
        webhookEndpoint: url,
        webhookState: "pending",
      });
      const delivery = sampleDelivery(webhook, { nextAt: NOW + DAY_MS });
      await insertForwarded(store, [{ run: webhook, payload: samplePayload(), delivery }]);
      const older = await ended(appNumber, 29.7 * DAY_MS);
      const newer = await ended(appNumber, HOUR_MS);

      const { runs } = await store.retention.usage();
      await sweep({ maxRuns: runs - 1 });
      expect(await hasRecord(older)).toBe(false);
      expect(await Promise.all([waiting, webhook, newer].map(hasRecord))).toEqual([true, true, true]);

      await sweep({ maxStorageBytes: 0 });
      expect([await hasRecord(newer), await hasPayload(newer)]).toEqual([true, false]);
      expect(await hasPayload(waiting)).toBe(true);
      expect(
        (await store.deliveries.claimDue({ now: NOW + 2 * DAY_MS, owner: "o", limit: 9 })).map(
          ({ id }) => id,
        ),
      ).toContain(webhook.id);
    },
  );
});

let serial = 0;

/** A UUIDv7 of that age; `uuidv7` itself never goes back in time. */
function agedId(ageMs: number): string {
  const head = Math.floor(NOW - ageMs)
    .toString(16)
    .padStart(12, "0");
  const tail = (++serial).toString(16).padStart(12, "0");
  return `${head.slice(0, 8)}-${head.slice(8)}-7000-8000-${tail}`;
}
