import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import type { TranscriptPart } from "../../../src/model/run.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";

const databases = testDatabases();

describe.each(DATABASE_KINDS)("payloads and transcripts on %s", (kind) => {
  let store: Store;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  const text = (bytes: Uint8Array | null | undefined) => bytes && Buffer.from(bytes).toString("latin1");
  const part = (firstEvent: number, eventCount: number, bytes = `${firstEvent}+${eventCount}`) => ({
    firstEvent,
    eventCount,
    bytes: Buffer.from(bytes),
  });

  test("payloads are found byte for byte, each with its own run", async () => {
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const payloads = [
      samplePayload({
        input: all,
        result: randomBytes(100_000),
        contentType: "application/json",
        isBare: true,
      }),
      samplePayload({ input: null, result: null }),
      samplePayload({ input: Buffer.alloc(0), result: all.subarray(3, 9), sealedSecret: all.subarray(200) }),
    ];
    const ends = payloads.map((payload) => sampleEnd(sampleRun(), { payload }));
    // One without a payload stands between the others.
    await store.runs.insertFinished([packEnded([ends[0]!, sampleEnd(), ends[1]!, ends[2]!])]);
    for (const { run, payload } of ends) {
      const found = await store.payloads.find(run);
      expect(found).toMatchObject({ contentType: payload?.contentType, isBare: payload?.isBare });
      expect(text(found?.input)).toBe(text(payload?.input));
      expect(text(found?.result)).toBe(text(payload?.result));
      expect(text(found?.sealedSecret)).toBe(text(payload?.sealedSecret));
      expect(await store.runs.find(run)).toEqual(run);
    }
    expect(await store.payloads.find({ appNumber: 1, id: uuidv7(1) })).toBeNull();
  });

  test("what is stored already stays as it is, in every table", async () => {
    const run = sampleRun();
    const first = sampleEnd(run, {
      payload: samplePayload({ result: Buffer.from("first") }),
      part: part(1, 1, "first"),
    });
    const second = sampleEnd(run, {
      payload: samplePayload({ result: Buffer.from("second") }),
      part: part(1, 1, "second"),
    });
    await store.runs.insertFinished([packEnded([first])]);
    const before = await store.retention.usage();
    await store.runs.insertFinished([packEnded([second])]);
    expect(await store.retention.usage()).toEqual(before);
    expect(text((await store.payloads.find(run))?.result)).toBe("first");
    expect(text((await store.transcripts.next({ ...run, after: 0 }))?.bytes)).toBe("first");
  });

  test("a transcript is read part by part, from any event", async () => {
    const key = { appNumber: 1, id: uuidv7(Date.now()) };
    const other = { appNumber: 1, id: uuidv7(Date.now()) };
    const parts = [part(1, 3), part(4, 1), part(5, 10)];
    await store.transcripts.write([
      ...parts.map((each) => ({ ...key, ...each })),
      { ...other, ...part(1, 100) },
    ]);
    const firstAfter = async (after: number) => (await store.transcripts.next({ ...key, after }))?.firstEvent;
    expect(await Promise.all([0, 2, 3, 4, 13].map(firstAfter))).toEqual([1, 1, 4, 5, 5]);
    expect(await store.transcripts.next({ ...key, after: 14 })).toBeNull();
    // The largest that a reader may name.
    expect(await store.transcripts.next({ ...key, after: 999_999_999_999_998 })).toBeNull();
    expect(await store.transcripts.last(key)).toBe(14);
    expect(await store.transcripts.last({ ...key, appNumber: key.appNumber + 1 })).toBe(0);
    const found = (await store.transcripts.next({ ...key, after: 3 })) as TranscriptPart;
    expect({ ...found, bytes: text(found.bytes) }).toEqual({ firstEvent: 4, eventCount: 1, bytes: "4+1" });
  });

  test("a trimmed transcript begins with the first part that is left", async () => {
    const key = { appNumber: 1, id: uuidv7(Date.now()) };
    await store.transcripts.write([part(1, 3), part(4, 1), part(5, 10)].map((each) => ({ ...key, ...each })));
    await store.transcripts.trim({ ...key, before: 4 });
    expect((await store.transcripts.next({ ...key, after: 0 }))?.firstEvent).toBe(4);
    // The last part is not below the limit as a whole.
    await store.transcripts.trim({ ...key, before: 14 });
    expect((await store.transcripts.next({ ...key, after: 0 }))?.firstEvent).toBe(5);
    await store.transcripts.trim({ ...key, before: Number.MAX_SAFE_INTEGER });
    expect(await store.transcripts.next({ ...key, after: 0 })).toBeNull();
  });

  test("a piece of a larger buffer is stored alone", async () => {
    const key = { appNumber: 1, id: uuidv7(Date.now()) };
    const large = Buffer.alloc(1_000_000, "x");
    await store.transcripts.write([{ ...key, firstEvent: 1, eventCount: 1, bytes: large.subarray(10, 15) }]);
    expect(text((await store.transcripts.next({ ...key, after: 0 }))?.bytes)).toBe("xxxxx");
  });
});
