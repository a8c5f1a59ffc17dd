import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { createLog } from "../../../../src/kit/log.ts";
import { type Span, type SpanExporter, SpanQueue } from "../../../../src/runs/traces/span-queue.ts";
import { HandClock } from "../../../support/clocks.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const SPAN: Span = {
  name: "run",
  kind: "internal",
  traceId: "1".repeat(32),
  spanId: "2".repeat(16),
  parentId: null,
  state: null,
  startMs: 0,
  endMs: 1,
  errorCode: null,
  attributes: {},
  links: [],
};

/** A collector that answers when it is told to. */
class PlayedExporter implements SpanExporter {
  readonly batches: number[] = [];
  readonly #pending: { resolve(): void; reject(error: Error): void }[] = [];
  isClosed = false;

  export(spans: readonly Span[]): Promise<void> {
    this.batches.push(spans.length);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#pending.push({ resolve, reject });
    return promise;
  }

  answer(error?: Error): void {
    const next = this.#pending.shift();
    if (error) next?.reject(error);
    else next?.resolve();
  }

  close(): Promise<void> {
    this.isClosed = true;
    return Promise.resolve();
  }
}

function played() {
  const clock = new HandClock();
  const exporter = new PlayedExporter();
  const lines: string[] = [];
  const stream = new Writable({
    write: (line, _, done) => {
      lines.push((JSON.parse(String(line)) as { msg: string }).msg);
      done();
    },
  });
  const queue = new SpanQueue({
    maxWaiting: 6,
    batchSize: 4,
    delayMs: 1_000,
    exporter,
    clock,
    log: createLog("info", stream),
  });
  const add = (count: number): void => {
    for (let i = 0; i < count; i++) queue.add(SPAN);
  };
  return { clock, exporter, lines, queue, add };
}

test("spans leave when there are enough of them, or after a while", async () => {
  const { clock, exporter, queue, add } = played();
  add(3);
  expect(exporter.batches).toEqual([]);
  clock.advance(1_000);
  expect(exporter.batches).toEqual([3]);
  exporter.answer();
  await until("they have arrived", () => queue.exported === 3);
  add(4);
  expect(exporter.batches).toEqual([3, 4]);
  exporter.answer();
  await until("they have arrived", () => queue.exported === 7);
});

verifies(
  "traces.slow",
  "what a slow collector does not take is dropped and counted; the log says so once",
  async () => {
    const { exporter, lines, queue, add } = played();
    add(4);
    // Nothing is answered: six may wait.
    add(9);
    expect(queue).toMatchObject({ exported: 0, dropped: 3 });
    expect(lines).toHaveLength(1);
    exporter.answer(new Error("the collector is gone"));
    await until("the first are given up", () => queue.dropped === 7);
    expect(lines).toHaveLength(1);
    exporter.answer();
    exporter.answer();
    await until("the next have arrived", () => queue.exported === 4);
    expect(lines.at(-1)).toBe("spans are exported again");
    exporter.answer();
    await until("all have arrived", () => queue.exported === 6);
  },
);

verifies("traces.slow", "a stop does not wait for a collector that does not answer", async () => {
  const { clock, exporter, queue, add } = played();
  add(5);
  const closing = queue.close();
  await until("the stop waits", () => exporter.batches.length === 1);
  clock.advance(2_000);
  await closing;
  expect(queue).toMatchObject({ exported: 0, dropped: 1 });
  expect(exporter.isClosed).toBe(true);
});
