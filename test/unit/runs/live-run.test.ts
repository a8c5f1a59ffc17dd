import { expect, test, vi } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Batch } from "../../../src/replicas/slots/batch.ts";
import { Rhythm } from "../../../src/replicas/slots/learning.ts";
import { LiveRun, type RunParts, type RunRequest } from "../../../src/runs/live-run.ts";
import { PartWriter } from "../../../src/runs/transcript-parts.ts";
import type { Store } from "../../../src/store/store.ts";
import { until } from "../../support/until.ts";

const CHUNK = { isText: true, bytes: Buffer.from("x"), wireBytes: 9 };
const REQUEST = {
  id: "a",
  target: {
    appNumber: 1,
    config: readAppConfig({ host: { cpuCount: 2 } }).config,
    hidden: { input: false, result: false },
  },
  functionName: "run",
  body: Buffer.alloc(0),
  webhook: null,
} as unknown as RunRequest;

test("without a reader, chunks are granted at once, or when a store that is behind has caught up", async () => {
  const { promise: written, resolve: write } = Promise.withResolvers<void>();
  const store = { transcripts: { write: () => written } } as unknown as Store;
  const partWriter = new PartWriter(store, createLog("silent"), systemClock);
  const parts = { clock: systemClock, store, partWriter } as unknown as RunParts;
  const run = new LiveRun(REQUEST, parts, null, { record: () => {} }, null, () => {});
  let granted = 0;
  vi.spyOn(run, "grant").mockImplementation((bytes) => void (granted += bytes));
  run.onStream();
  run.onChunk(CHUNK);
  expect(granted).toBe(9);
  const part = { firstEvent: 1, eventCount: 1, bytes: Buffer.alloc(20 * 1024 * 1024) };
  const stored = partWriter.write({ appNumber: 1, id: "a" }, part);
  expect(partWriter.isFull).toBe(true);
  run.onChunk(CHUNK);
  run.onChunk(CHUNK);
  expect(granted).toBe(9);
  write();
  expect(await stored).toBe(true);
  await until("both are granted", () => granted === 27);
});

test("the record of a run that was handed over in a batch says so", () => {
  const run = new LiveRun(
    REQUEST,
    { clock: systemClock } as RunParts,
    null,
    { record: () => {} },
    null,
    () => {},
  );
  expect(run.record()).toMatchObject({ batchSize: null, batchReason: null });
  run.call.batch = new Batch({ functionName: "double", rhythm: new Rhythm() }, 32, 32, "full", 0);
  expect(run.record()).toMatchObject({ batchSize: 32, batchReason: "full" });
});
