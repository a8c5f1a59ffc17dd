import { mkdtempSync, rmSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { DirectoryBlobs } from "../../../src/blobs/directory-blobs.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { LARGE_BYTES, LargePayloads, openPayloadPlace } from "../../../src/runs/large-payloads.ts";
import { openStore } from "../../../src/store/store.ts";
import { verifies } from "../../verifies.ts";

const LARGE = Buffer.alloc(LARGE_BYTES + 1, "x");
const UNAVAILABLE = { code: "storage_unavailable", status: 503 };

/** A database, and a folder that may be taken away. */
async function site() {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-place-"));
  const store = await openStore({ databaseUrl: null, dataDir: folder });
  onTestFinished(async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const share = path.join(folder, "share");
  const always = { isFirst: () => true };
  return {
    share,
    store,
    /** What a service does at its start. */
    start: async () => {
      const blobs = await DirectoryBlobs.open(share);
      const place = await openPayloadPlace(blobs, store);
      const large = new LargePayloads({
        blobs,
        place,
        store,
        clock: systemClock,
        log: createLog("silent"),
        ...always,
      });
      onTestFinished(() => large.stop());
      return { blobs, large };
    },
  };
}

verifies("payloads.blob.place", "what a folder lacks in which nothing is mounted is not gone", async () => {
  const { share, start } = await site();
  const first = await start();
  const blob = await first.large.put(LARGE);
  await rename(share, `${share}.mounted`);
  // It makes its folders anew, as every service at its start.
  const second = await start();
  for (const { large } of [first, second]) {
    await expect(large.read(blob)).rejects.toMatchObject(UNAVAILABLE);
    await expect(large.put(LARGE)).rejects.toMatchObject(UNAVAILABLE);
  }
  await rm(share, { recursive: true });
  await rename(`${share}.mounted`, share);
  for (const { large } of [first, second]) expect((await large.read(blob))?.equals(LARGE)).toBe(true);
  await first.blobs.remove(blob.hash);
  expect(await second.large.read(blob)).toBeNull();
});

verifies("payloads.blob.place", "services that start at once agree on the mark", async () => {
  const { start } = await site();
  const services = await Promise.all([start(), start(), start()]);
  for (const { large } of services) expect(await large.put(LARGE)).toMatchObject({ bytes: LARGE.length });
});
