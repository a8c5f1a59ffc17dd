import { mkdtempSync, rmSync, statSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished } from "vitest";
import { DiskReserve } from "../../../src/kit/disk-reserve.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Sweeper } from "../../../src/runs/sweeper.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { sampleEnd, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const MIB = 2 ** 20;

async function openScratch(): Promise<{ store: Store; file: string }> {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-space-"));
  const file = path.join(dataDir, "millrace.db");
  const store = await openStore({ dataDir, databaseUrl: null });
  onTestFinished(async () => {
    await store.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return { store, file };
}

/** Stores so many MiB of inputs, and removes the oldest of them again. */
async function fillAndEmpty(store: Store, filled = 32, emptied = filled): Promise<void> {
  const input = Buffer.alloc(MIB, "x");
  for (let i = 0; i < filled; i++) {
    const end = sampleEnd(undefined, { payload: samplePayload({ input }) });
    await store.runs.insertFinished([packEnded([end])]);
  }
  await store.retention.removeOldest({ limit: emptied, keep: "record" });
}

function sweeper(store: Store): Sweeper {
  const parts = { store, clock: new SkippingClock(), log: createLog("silent"), retentions: () => [] };
  const caps = {
    maxRuns: 1_000_000,
    maxStorageBytes: 1_000_000_000,
    maxLogBytes: 1_000_000_000,
    recordRetentionMs: 30 * 86_400_000,
    auditRetentionMs: 365 * 86_400_000,
    isFirst: () => true,
  };
  return new Sweeper({ ...parts, ...caps });
}

verifies("storage.gives-back", "what the sweeper removed is the disk's again, a step at a time", async () => {
  const { store, file } = await openScratch();
  await fillAndEmpty(store);
  expect(await store.space.freeBytes()).toBeGreaterThan(24 * MIB);
  await sweeper(store).sweep();
  expect(await store.space.freeBytes()).toBeLessThanOrEqual(8 * MIB);
  await store.close();
  expect(statSync(file).size).toBeLessThan(16 * MIB);
});

verifies(
  "storage.free-pages",
  "free pages count as room, and a refusal says what is free and what to set",
  async () => {
    const { store, file } = await openScratch();
    const { bavail, bsize } = statfsSync(file);
    const options = { insideBytes: () => store.space.freeBytes(), setting: "MILLRACE_DISK_RESERVE" };
    // A little more than the disk has: only what is free inside the file can make up for it.
    const reserve = new DiskReserve(path.dirname(file), bavail * bsize + 8 * MIB, options);
    await reserve.look();
    expect(reserve.shortage).toMatch(
      /^The disk has \d+ MB free, but \d+ MB must stay free: make room, or lower MILLRACE_DISK_RESERVE\.$/,
    );
    const inside = { ...options, insideBytes: () => Promise.resolve(1_000_000 * MIB) };
    const roomy = new DiskReserve(path.dirname(file), bavail * bsize + 8 * MIB, inside);
    await roomy.look();
    expect([roomy.isLow, roomy.shortage]).toEqual([false, null]);
    // Nothing is free but inside: the log could not grow.
    const tight = new DiskReserve(path.dirname(file), 8 * bavail * bsize, inside);
    await tight.look();
    expect(tight.isLow).toBe(true);
  },
);

verifies(
  "storage.gives-back",
  "while somebody reads the log stays small; then all of it goes back, with nobody writing",
  async () => {
    const { store, file } = await openScratch();
    const logBytes = () => statSync(`${file}-wal`).size;
    // What is left lies behind what was removed, and has to be moved.
    await fillAndEmpty(store, 120, 60);
    const reader = new DatabaseSync(file);
    reader.exec("pragma wal_checkpoint(truncate); begin");
    reader.prepare("select count(*) from runs").get();
    const sweeping = sweeper(store);
    await sweeping.sweep();
    expect(logBytes()).toBeLessThan(34 * MIB);
    expect(await store.space.freeBytes()).toBeGreaterThan(8 * MIB);
    reader.exec("rollback");
    reader.close();
    await sweeping.sweep();
    expect(await store.space.freeBytes()).toBeLessThanOrEqual(8 * MIB);
    expect(logBytes()).toBe(0);
    expect(statSync(file).size).toBeLessThan(72 * MIB);
  },
);
