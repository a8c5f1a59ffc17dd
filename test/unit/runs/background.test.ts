import { expect, test } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { BackgroundReader } from "../../../src/runs/background.ts";
import type { LiveRun } from "../../../src/runs/live-run.ts";
import { PartWriter } from "../../../src/runs/transcript-parts.ts";
import type { Store } from "../../../src/store/store.ts";
import { until } from "../../support/until.ts";

const CHUNK = { isText: true, bytes: Buffer.from("x"), wireBytes: 9 };

test("chunks are granted again at once, and only when the store has caught up while it is behind", async () => {
  const { promise: written, resolve: write } = Promise.withResolvers<void>();
  const store = { transcripts: { write: () => written } } as unknown as Store;
  const writer = new PartWriter(store, createLog("silent"), systemClock);
  let granted = 0;
  const reader = new BackgroundReader(writer);
  reader.attach({ grant: (bytes: number) => (granted += bytes) } as unknown as LiveRun);
  reader.onStream();
  reader.onChunk(CHUNK);
  expect(granted).toBe(9);
  const part = { firstEvent: 1, eventCount: 1, bytes: Buffer.alloc(20 * 1024 * 1024) };
  const stored = writer.write({ appNumber: 1, id: "a" }, part);
  expect(writer.isFull).toBe(true);
  reader.onChunk(CHUNK);
  reader.onChunk(CHUNK);
  expect(granted).toBe(9);
  write();
  expect(await stored).toBe(true);
  await until("both are granted", () => granted === 27);
});
