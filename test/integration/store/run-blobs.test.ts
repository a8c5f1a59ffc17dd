import { utimesSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import type { RunBlobName } from "../../../src/store/runs/payloads.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { largeFolder } from "../../support/blobs/large-folder.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { queuedRun, sampleDelivery, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const [INPUT, RESULT, BODY] = ["a", "b", "c"].map((digit) => ({ hash: digit.repeat(64), bytes: 5_000_000 }));
const HASHES = [INPUT!.hash, RESULT!.hash, BODY!.hash];

describe.each(DATABASE_KINDS)("blobs of runs on %s", (kind) => {
  let store: Store;
  let lastApp = 0;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  const claim = async (appNumber: number, maxBytes = Number.POSITIVE_INFINITY) =>
    await store.claims.claim({ owner: "one", appNumber, limit: 10, maxBytes });

  verifies(
    "payloads.blob",
    "the rows of a run name its blobs, and count their bytes, until they go",
    async () => {
      const before = await store.retention.usage();
      const run = queuedRun({ appNumber: ++lastApp });
      const small = queuedRun({ appNumber: lastApp });
      const payload = samplePayload({ input: null, inputBlob: INPUT! });
      await store.runs.accept([
        { run, payload, owner: null },
        { run: small, payload: samplePayload(), owner: null },
      ]);
      const found = await store.payloads.find(run);
      expect(found).toMatchObject({ input: null, inputBlob: INPUT });
      expect(await store.payloads.find(small)).not.toHaveProperty("inputBlob");
      expect(await store.runBlobs.named(HASHES)).toEqual([INPUT!.hash]);
      // As many as fit, by what lies in the blobs too.
      const { runs, hasMore } = await claim(lastApp, 1_000);
      expect([runs.map((each) => each.payload.inputBlob), hasMore]).toEqual([[INPUT], true]);

      const end = { ...run, state: "success", completedAt: run.createdAt + 1 } as const;
      const delivery = sampleDelivery(run, { body: null, bodyBlob: BODY! });
      const result = { bytes: null, blob: RESULT!, contentType: "text/plain" };
      const finished = { run: end, fence: 1, owner: "one", result, part: null, delivery };
      expect(await store.claims.finish([finished])).toEqual([run.id]);
      expect(await store.payloads.find(run)).toMatchObject({
        inputBlob: INPUT,
        result: null,
        resultBlob: RESULT,
      });
      expect((await store.runBlobs.named(HASHES)).toSorted()).toEqual(HASHES);
      const stored = (await store.retention.usage()).bytes - before.bytes;
      expect(stored).toBeGreaterThan(INPUT!.bytes + RESULT!.bytes);
      const step = { table: "payloads", appNumber: lastApp, after: null } as const;
      expect((await store.appStorage.count(step)).bytes).toBe(stored);

      // Whatever is removed, and in whichever way, counts as much as it did.
      await store.retention.expire({ appNumber: lastApp, cutoff: run.createdAt + 1_000_000, limit: 10 });
      expect(await store.payloads.find(run)).toBeNull();
      expect(await store.runBlobs.named(HASHES)).toEqual([BODY!.hash]);
      await claim(lastApp);
      const drop = { ...small, state: "failure", completedAt: small.createdAt + 1 } as const;
      await store.claims.finish([{ ...finished, run: drop, result: null, delivery: null }]);
      expect((await store.retention.usage()).bytes).toBe(before.bytes);
    },
  );

  verifies(
    "payloads.blob.collected",
    "who names a blob no longer is forgotten, a page at a time",
    async () => {
      const appNumber = ++lastApp;
      const inputBlob = { hash: "e".repeat(64), bytes: 2_000_000 };
      const runs = Array.from({ length: 5 }, () => queuedRun({ appNumber, state: "running" }));
      const payload = samplePayload({ input: null, inputBlob });
      await store.runs.accept(runs.map((run) => ({ run, payload, owner: "one" })));
      const ends = runs.slice(0, 4).map((run) => ({ ...run, state: "success", completedAt: 1 }) as const);
      const nothing = { fence: 1, owner: "one", result: null, part: null, delivery: null };
      await store.claims.finish(ends.map((run) => ({ run, ...nothing })));
      // All of a page, one after the other, and the rest.
      const names: (RunBlobName | null)[] = [null];
      do names.push(await store.runBlobs.tidy({ after: names.at(-1)!, limit: 2 }));
      while (names.at(-1));
      expect(await store.runBlobs.named([inputBlob.hash])).toEqual([inputBlob.hash]);
      // What is left is that one, and what a test before it has left.
      expect(await store.runBlobs.tidy({ after: null, limit: 3 })).toBeNull();
    },
  );

  verifies(
    "payloads.blob.collected",
    "whoever puts and names a blob again while it is removed keeps it",
    async () => {
      const { blobs, large } = await largeFolder();
      const collector = large({ store, clock: systemClock });
      const bytes = Buffer.from("sent again and again");
      const { hash } = await blobs.put([bytes]);
      utimesSync(path.join(blobs.place, "sha256", hash.slice(0, 2), hash), 0, 0);
      const run = queuedRun({ appNumber: ++lastApp });
      const remove = blobs.remove.bind(blobs);
      blobs.remove = async (...given) => {
        const isGone = await remove(...given);
        const { bytes: length } = await blobs.put([bytes]);
        const payload = samplePayload({ input: null, inputBlob: { hash, bytes: length } });
        await store.runs.accept([{ run, payload, owner: null }]);
        return isGone;
      };
      await collector.collect();
      expect([await blobs.has(hash), await store.runBlobs.named([hash])]).toEqual([true, [hash]]);
      await collector.stop();
    },
  );

  verifies("payloads.blob", "a run that becomes async names the blob of its input", async () => {
    const run = queuedRun({ appNumber: ++lastApp, state: "running", isAsync: false });
    const hash = "d".repeat(64);
    await store.runs.accept([{ run, payload: samplePayload({ input: null }), owner: "one" }]);
    const before = await store.retention.usage();
    const inputBlob = { hash, bytes: 7_000_000 };
    const claimed = { ...run, fence: 1, owner: "one", payload: { input: null, inputBlob } };
    await store.claims.setAsync(claimed);
    expect(await store.payloads.find(run)).toMatchObject({ input: null, inputBlob });
    expect(await store.runBlobs.named([hash])).toEqual([hash]);
    await store.claims.finish([
      { run: { ...run, state: "failure" }, fence: 1, owner: "one", result: null, part: null, delivery: null },
    ]);
    expect([await store.payloads.find(run), await store.runBlobs.named([hash])]).toEqual([null, []]);
    expect(await store.retention.usage()).toEqual(before);
  });
});
