import { expect, test } from "vitest";
import { LineBuffer } from "../../../../src/apps/logs/line-buffer.ts";
import { lineWriter } from "../../../../src/apps/logs/line-writer.ts";
import { systemClock } from "../../../../src/kit/clock.ts";
import { createLog } from "../../../../src/kit/log.ts";
import type { LogLine } from "../../../../src/model/log-line.ts";
import type { Store } from "../../../../src/store/store.ts";

const line = (id: string): LogLine => ({ id, appNumber: 1, text: id }) as LogLine;

test("lines are stored once, even if no room can be made after them", async () => {
  const stored: string[] = [];
  const insert = async (batch: readonly LogLine[]) => {
    stored.push(...batch.map(({ id }) => id));
    return [];
  };
  let failures = 0;
  const keep = async (): Promise<void> => {
    failures += 1;
    throw new Error("the database is away");
  };
  const buffer = new LineBuffer("");
  const writer = lineWriter({
    store: { logs: { insert } } as unknown as Store,
    clock: systemClock,
    log: createLog("silent"),
    buffer,
    share: { keep },
    onStored: () => undefined,
  });
  for (const id of ["a", "b"]) buffer.add(line(id));
  await writer.flush();
  buffer.add(line("c"));
  await writer.flush();
  await writer.settle(0, () => buffer.abandon());
  expect([stored, failures, buffer.waitingCount]).toEqual([["a", "b", "c"], 2, 0]);
});
