import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { LogBook } from "../../../src/apps/logs/log-book.ts";
import { LogShare } from "../../../src/apps/logs/line-writer.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Sweeper } from "../../../src/runs/sweeper.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { type TestDatabase, testDatabases, triedKinds } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const LINE_BYTES = 1_000 + 150;
/** A write takes so many lines at most. */
const BATCH_BYTES = 500 * LINE_BYTES;

describe.each(triedKinds("sqlite"))("what apps print, on %s", (kind) => {
  let store: Store;
  let place: TestDatabase;
  beforeAll(async () => {
    place = await databases.fresh(kind);
    store = await openStore(place);
  });
  afterAll(async () => await store.close());

  /** Past everything that keeps count. */
  async function execute(statement: string): Promise<void> {
    if (place.databaseUrl === null) {
      const database = new DatabaseSync(path.join(place.dataDir, "millrace.db"));
      // The service writes too.
      database.exec(`pragma busy_timeout = 5000; ${statement}`);
      database.close();
      return;
    }
    const client = new Client({ connectionString: place.databaseUrl });
    await client.connect();
    await client.query(statement);
    await client.end();
  }

  /** A log book that tells what is used after each of its writes. */
  async function open(maxBytes: number, reserve: { isNear: boolean; shortage: string | null }) {
    const used: number[] = [];
    const insert: Store["logs"]["insert"] = async (lines) => {
      used.push(await store.logs.usedBytes());
      return await store.logs.insert(lines);
    };
    const counting = { ...store, logs: { ...store.logs, insert } };
    const share = new LogShare({ store, maxBytes, reserve });
    const clock = new HandClock();
    const runLimits = { linesPerSecond: 1e9, bytesPerSecond: 1e12, burstSeconds: 1 };
    const book = await LogBook.open({ store: counting, clock, log: createLog("silent"), share, runLimits });
    const print = async (appNumber: number, from: number, count: number): Promise<void> => {
      for (let number = from; number < from + count; number++) {
        const text = String(number).padEnd(1_000, ".");
        const where = { projectId: "p-test", appName: "app", replicaId: "r", runId: null } as const;
        book.add({ ...where, appNumber, stream: "stdout", text });
        // More at once than an app may print would be left out.
        if (number % 1_000 === 999) clock.advance(1_000);
      }
      await book.query({ appNumber, direction: "backward", pageSize: 1 });
    };
    const numbers = async (appNumber: number): Promise<number[]> => {
      const scan = { appNumber, direction: "forward", limit: 100_000, scanLimit: 100_000 } as const;
      return (await store.logs.scan(scan)).lines.map(({ text }) => Number.parseInt(text, 10));
    };
    return { book, share, used, print, numbers };
  }

  verifies(
    "logs.share",
    "an app has its share while it prints, its oldest lines go, and no other's",
    async () => {
      const { book, share, used, print, numbers } = await open(100_000_000, {
        isNear: false,
        shortage: null,
      });
      share.limitApps((appNumber) => (appNumber === 1 ? 1_000_000 : 100_000_000));
      await print(2, 0, 100);
      await print(1, 0, 5_000);
      const kept = await numbers(1);
      expect(kept.at(-1)).toBe(4_999);
      expect(kept).toEqual(Array.from({ length: kept.length }, (_, i) => 5_000 - kept.length + i));
      expect(kept.length * LINE_BYTES).toBeLessThanOrEqual(1_000_000);
      expect(kept.length * LINE_BYTES).toBeGreaterThan(1_000_000 - BATCH_BYTES);
      // Never more than one write above it, however much comes.
      expect(Math.max(...used)).toBeLessThanOrEqual(1_000_000 + BATCH_BYTES + 100 * LINE_BYTES);
      expect(await numbers(2)).toHaveLength(100);
      expect(await store.logs.usedByApp()).toEqual([
        { appNumber: 1, bytes: kept.length * LINE_BYTES },
        { appNumber: 2, bytes: 100 * LINE_BYTES },
      ]);
      await book.stop();
      while ((await store.logs.removeOldest({ limit: 10_000 })) > 0);
    },
  );

  verifies(
    ["logs.share", "logs.share.fair"],
    "past the installation's share the oldest lines go of whoever has most, never of one that prints little",
    async () => {
      const { book, print, numbers } = await open(1_000_000, { isNear: false, shortage: null });
      await print(3, 0, 100);
      await print(4, 0, 5_000);
      expect(await numbers(3)).toHaveLength(100);
      const kept = await numbers(4);
      expect(kept.at(-1)).toBe(4_999);
      expect(kept.length).toBeGreaterThan(200);
      expect(await store.logs.usedBytes()).toBeLessThanOrEqual(1_000_000);
      await book.stop();
      while ((await store.logs.removeOldest({ limit: 10_000 })) > 0);
    },
  );

  verifies("logs.share.fair", "a count of lines that are not there keeps no other's from going", async () => {
    const { book, print, numbers } = await open(100_000_000, { isNear: false, shortage: null });
    await print(9, 0, 20);
    await print(10, 0, 50);
    await book.stop();
    const trim = async () => await store.logs.trim({ appNumber: null, bytes: 10 * LINE_BYTES, limit: 100 });
    expect(await trim()).toEqual({ lineCount: 10, freedBytes: 10 * LINE_BYTES });
    expect([(await numbers(9)).length, (await numbers(10)).length]).toEqual([20, 40]);
    await execute("insert into log_usage (app_number, bytes) values (99, 1000000000)");
    expect(await trim()).toEqual({ lineCount: 0, freedBytes: 0 });
    expect((await trim()).lineCount).toBe(10);
    expect([(await numbers(9)).length, (await numbers(10)).length]).toEqual([20, 30]);
    while ((await store.logs.removeOldest({ limit: 10_000 })) > 0);
  });

  verifies("logs.share", "a share that was made smaller is kept by the next sweep", async () => {
    const { book, print, numbers } = await open(100_000_000, { isNear: false, shortage: null });
    await print(5, 0, 900);
    await print(6, 0, 900);
    await book.stop();
    const retentions = () => [{ appNumber: 5, retentionMs: 1e9, maxLogBytes: 100_000 }];
    const caps = { maxRuns: 1e6, maxStorageBytes: 1e9, maxLogBytes: 500_000 };
    const ages = {
      recordRetentionMs: 30 * 86_400_000,
      auditRetentionMs: 365 * 86_400_000,
    };
    const clock = { ...systemClock, now: () => new HandClock().now() };
    const isFirst = () => true;
    await new Sweeper({
      store,
      clock,
      log: createLog("silent"),
      ...caps,
      ...ages,
      retentions,
      isFirst,
    }).sweep();
    expect((await numbers(5)).length).toBeLessThanOrEqual(100_000 / LINE_BYTES);
    expect(await store.logs.usedBytes()).toBeLessThanOrEqual(500_000);
    expect((await numbers(6)).at(-1)).toBe(899);
    while ((await store.logs.removeOldest({ limit: 10_000 })) > 0);
  });

  verifies(
    "logs.reserve",
    "near the reserve an app pays with its own lines, within it none is stored",
    async () => {
      const reserve: { isNear: boolean; shortage: string | null } = { isNear: false, shortage: null };
      const { book, print, numbers } = await open(100_000_000, reserve);
      await print(7, 0, 900);
      await print(8, 0, 10);
      const before = await store.logs.usedBytes();
      reserve.isNear = true;
      await print(7, 900, 300);
      expect(await store.logs.usedBytes()).toBeLessThan(before);
      expect((await numbers(7)).at(-1)).toBe(1_199);
      expect(await numbers(8)).toHaveLength(10);
      reserve.shortage = "The disk has 1 MB free.";
      const full = await store.logs.usedBytes();
      await print(7, 2_000, 50);
      expect(await store.logs.usedBytes()).toBe(full);
      reserve.shortage = null;
      await print(8, 10, 1);
      await print(8, 11, 1);
      const scan = { appNumber: 7, direction: "backward", limit: 1, scanLimit: 10 } as const;
      await book.stop();
      expect((await store.logs.scan(scan)).lines[0]?.text).toBe(
        "[millrace] 50 lines are missing here: the disk was nearly full",
      );
    },
  );
});
