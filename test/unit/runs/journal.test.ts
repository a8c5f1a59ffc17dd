import { expect, test } from "vitest";
import { uuidText } from "../../../src/kit/ids.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Journal, type JournalEntry } from "../../../src/runs/journal.ts";
import type { Transcript } from "../../../src/runs/transcript.ts";
import { batchColumns } from "../../../src/store/column-batch.ts";
import { type EndedBatch, type EndedRun, findEnded } from "../../../src/store/runs/ended-runs.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

function entry(fields: Partial<EndedRun> = {}): JournalEntry {
  return { ...sampleEnd(sampleRun(), fields), transcript: null };
}

type Stored = Pick<EndedRun, "run" | "payload">;

function idsIn({ runs }: EndedBatch): string[] {
  const { valueAt } = batchColumns(runs).find(({ name }) => name === "id")!;
  return Array.from({ length: runs.rowCount }, (_, row) => uuidText(valueAt(row) as Uint8Array));
}

/** The runs of a batch as the database would give them back. */
function runsIn(batch: EndedBatch): Stored[] {
  return idsIn(batch).map((id) => findEnded(batch, { appNumber: 1, id })!);
}

/** Takes batches, or refuses them while told to: a disk that fails cannot be had on demand. */
class Shelf {
  /** Copies, for the journal gives its memory back. */
  readonly #written: EndedBatch[][] = [];
  isBroken = false;
  /** How often it refused. */
  refusals = 0;
  readonly clock = new HandClock();
  readonly reserve = { isLow: false };
  readonly journal = new Journal(
    {
      runs: {
        insertFinished: (ended: readonly EndedBatch[]) => {
          if (this.isBroken) this.refusals += 1;
          if (this.isBroken) return Promise.reject(new Error("the disk is full"));
          this.#written.push(structuredClone([...ended]));
          return Promise.resolve();
        },
      },
    } as unknown as Store,
    createLog("silent"),
    this.clock,
    this.reserve,
  );

  add(count: number): string[] {
    const entries = Array.from({ length: count }, () => entry());
    for (const ended of entries) this.journal.add(ended);
    return entries.map(({ run }) => run.id);
  }

  /** Lets time pass, a tenth of a second at each look, until that is over. */
  async passes(settled: Promise<void>): Promise<void> {
    const state = { isOver: false };
    void settled.then(() => (state.isOver = true));
    while (!state.isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.clock.pending > 0) this.clock.advance(100);
    }
  }

  get batches(): Stored[][] {
    return this.#written.map((ended) => ended.flatMap(runsIn));
  }

  get ids(): string[][] {
    return this.#written.map((ended) => ended.flatMap(idsIn));
  }
}

test("records added together are written together, in their order", async () => {
  const shelf = new Shelf();
  const ids = shelf.add(150);
  expect(shelf.batches).toEqual([]);
  await shelf.journal.settle();
  expect(shelf.ids).toEqual([ids]);
});

verifies("storage.reserve.plain", "within the disk's reserve a record is stored alone", async () => {
  const shelf = new Shelf();
  const payload = samplePayload();
  shelf.reserve.isLow = true;
  shelf.journal.add(entry({ payload }));
  shelf.reserve.isLow = false;
  shelf.journal.add(entry({ payload }));
  await shelf.journal.settle();
  expect(shelf.batches.flat().map((stored) => stored.payload !== null)).toEqual([false, true]);
});

test("a few are written 80 ms after the first of them, and a refused write is tried again after a second", async () => {
  const shelf = new Shelf();
  const first = shelf.add(2);
  shelf.clock.advance(79);
  expect(shelf.batches).toEqual([]);
  first.push(...shelf.add(1));
  shelf.isBroken = true;
  shelf.clock.advance(1);
  expect(shelf.refusals).toBe(1);
  await until("the next try is planned", () => shelf.clock.pending === 1);
  shelf.isBroken = false;
  shelf.clock.advance(999);
  expect(shelf.batches).toEqual([]);
  shelf.clock.advance(1);
  expect(shelf.ids).toEqual([first]);
  await shelf.journal.settle();
});

test("a refused write is tried again after a second also if runs go on ending", async () => {
  const shelf = new Shelf();
  shelf.isBroken = true;
  shelf.add(1);
  shelf.clock.advance(80);
  // The write is under way.
  shelf.add(1);
  await until("the next try is planned", () => shelf.clock.pending === 1);
  shelf.add(1);
  shelf.clock.advance(999);
  expect(shelf.refusals).toBe(1);
  shelf.isBroken = false;
  shelf.clock.advance(1);
  expect(shelf.ids.flat()).toHaveLength(3);
  await shelf.journal.settle();
});

test("many are not left to wait, and a large pile is written in bounded batches", async () => {
  const shelf = new Shelf();
  const ids = shelf.add(9_000);
  await shelf.journal.settle();
  expect(shelf.ids.map((batch) => batch.length)).toEqual([4_000, 4_000, 1_000]);
  expect(shelf.ids.flat()).toEqual(ids);
});

test("what could not be written is written later, once and in order", async () => {
  const shelf = new Shelf();
  shelf.isBroken = true;
  const first = shelf.add(3);
  const settled = shelf.journal.settle();
  const second = shelf.add(2);
  await until("it was refused", () => shelf.refusals === 1);
  shelf.isBroken = false;
  await shelf.passes(settled);
  expect(shelf.ids.flat()).toEqual([...first, ...second]);
});

test("a stop does not wait for ever for a database that takes nothing", async () => {
  const shelf = new Shelf();
  shelf.isBroken = true;
  shelf.add(3);
  await shelf.passes(shelf.journal.settle(5_000));
  // A try every tenth of a second, the last when the time is over.
  expect(shelf.refusals).toBe(51);
  shelf.isBroken = false;
  await shelf.journal.settle();
  expect(shelf.batches).toEqual([]);
});

test("a run is found while it waits, by its app and id, and not once it is stored", async () => {
  const shelf = new Shelf();
  const [id = ""] = shelf.add(3);
  expect(shelf.journal.find(1, id)?.run.id).toBe(id);
  expect(shelf.journal.find(2, id)).toBeNull();
  expect(shelf.journal.find(1, sampleRun().id)).toBeNull();
  await shelf.journal.settle();
  expect(shelf.journal.find(1, id)).toBeNull();
});

test("among many that wait each is found whole, with its payload and its transcript", async () => {
  const shelf = new Shelf();
  shelf.isBroken = true;
  const entries = Array.from({ length: 200 }, (_, i) => {
    const payload = samplePayload({ input: Buffer.from(`{"n":${i}}`.padEnd(2_000)), result: null });
    return {
      ...entry({ payload: i % 3 === 0 ? null : payload }),
      transcript: i % 7 === 0 ? ({ place: i } as unknown as Transcript) : null,
    };
  });
  for (const each of entries) shelf.journal.add(each);
  const check = (): void => {
    for (const { run, payload, transcript } of entries) {
      const found = shelf.journal.find(1, run.id)!;
      expect(found.run).toEqual(run);
      expect(found.payload?.input?.toString()).toBe(payload?.input?.toString());
      expect(found.transcript).toBe(transcript);
    }
  };
  check();
  expect(shelf.journal.waiting).toBe(200);
  const early = entries.map(({ run }) => shelf.journal.find(1, run.id)!);
  // Still so when the database has refused them all.
  const settled = shelf.journal.settle();
  await until("it was refused", () => shelf.refusals === 1);
  check();
  shelf.isBroken = false;
  await shelf.passes(settled);
  expect(shelf.journal.waiting).toBe(0);
  // What somebody found before does not change when it is stored.
  for (const [i, { payload }] of early.entries()) {
    expect(payload?.input?.toString()).toBe(entries[i]!.payload?.input?.toString());
  }
  expect(shelf.batches.flat().map(({ run }) => run)).toEqual(entries.map(({ run }) => run));
});

test("arguments and results beyond 64 MiB are not kept, their records are", async () => {
  const shelf = new Shelf();
  shelf.isBroken = true;
  const payload = samplePayload({ result: Buffer.alloc(8 * 1024 * 1024) });
  for (let i = 0; i < 10; i++) shelf.journal.add(entry({ payload }));
  shelf.isBroken = false;
  await shelf.journal.settle();
  expect(shelf.batches.flat().map((ended) => ended.payload !== null)).toEqual([
    ...Array<boolean>(7).fill(true),
    ...Array<boolean>(3).fill(false),
  ]);
  // There is room again.
  shelf.journal.add(entry({ payload }));
  await shelf.journal.settle();
  expect(shelf.batches.at(-1)?.[0]?.payload?.result).toHaveLength(8 * 1024 * 1024);
});
