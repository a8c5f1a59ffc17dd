import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chunksAfter, PartBuilder, PartReader, PartWriter } from "../../../src/runs/transcript-parts.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { TranscriptPart } from "../../../src/model/run.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const chunk = fc.record({
  isText: fc.boolean(),
  bytes: fc.oneof(
    fc.uint8Array({ maxLength: 80 }),
    fc.uint8Array({ minLength: 60, maxLength: 70 }),
    fc.uint8Array({ minLength: 1_000, maxLength: 5_000 }),
  ),
});
type Given = { readonly isText: boolean; readonly bytes: Uint8Array };

const plain = ({ isText, bytes }: Given) => ({ isText, hex: Buffer.from(bytes).toString("hex") });

function add(builder: PartBuilder, { isText, bytes }: Given): void {
  builder.add({ isText, bytes: Buffer.from(bytes) });
}

describe("a part of a transcript", () => {
  test("gives any chunks back, in their order, from any number on", () => {
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 30 }), fc.nat(35), (given, after) => {
        const builder = new PartBuilder();
        for (const each of given) add(builder, each);
        const found = chunksAfter(builder.view(), after);
        expect(found.map(plain)).toEqual(given.slice(after).map(plain));
        expect(found.map(({ event }) => event)).toEqual(given.slice(after).map((_, i) => after + i + 1));
      }),
    );
  });

  test("is followed by one that goes on with the numbers, wherever it is taken", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(chunk, fc.boolean()), { maxLength: 30 }), (given) => {
        const builder = new PartBuilder();
        const parts = given.flatMap(([each, isTaken]) => {
          add(builder, each);
          return isTaken ? [builder.take()] : [];
        });
        const found = [...parts, builder.take()].flatMap((part) => chunksAfter(part, 0));
        expect(found.map(plain)).toEqual(given.map(([each]) => plain(each)));
        expect(found.map(({ event }) => event)).toEqual(given.map((_, i) => i + 1));
        expect(builder.firstEvent).toBe(given.length + 1);
      }),
    );
  });

  test("keeps what a reader holds of it as it was while it grows and when the next begins", () => {
    const builder = new PartBuilder();
    add(builder, { isText: true, bytes: Buffer.from("first") });
    const [held] = chunksAfter(builder.view(), 0);
    for (let i = 0; i < 5_000; i++) add(builder, { isText: true, bytes: Buffer.from("x".repeat(i % 90)) });
    builder.take();
    for (let i = 0; i < 5_000; i++) add(builder, { isText: false, bytes: Buffer.from("y".repeat(i % 90)) });
    expect(held?.bytes.toString()).toBe("first");
  });

  test("does not hold on to the bytes it was given", () => {
    const builder = new PartBuilder();
    const bytes = Buffer.from("abc");
    builder.add({ isText: true, bytes });
    bytes.fill("z");
    expect(chunksAfter(builder.view(), 0)[0]?.bytes.toString()).toBe("abc");
  });

  test("takes a chunk of 64 MiB", () => {
    const builder = new PartBuilder();
    const bytes = Buffer.alloc(64 * 1024 * 1024, "a");
    builder.add({ isText: true, bytes });
    builder.add({ isText: false, bytes: Buffer.from("1") });
    const [large, small] = chunksAfter(builder.view(), 0);
    expect([large?.bytes.length, large?.isText]).toEqual([bytes.length, true]);
    expect([small?.bytes.toString(), small?.isText]).toEqual(["1", false]);
  });
});

const KEY = { appNumber: 1, id: "0197c3a0-7e1b-7abc-8def-0123456789ab" };
const MIB = 1024 * 1024;

/** Takes batches one by one, when it is let. */
class Disk {
  readonly batches: number[][] = [];
  isBroken = false;
  refusals = 0;
  readonly clock = new HandClock();
  readonly reserve = { isLow: false };
  #gate: Promise<void> = Promise.resolve();
  open: () => void = () => undefined;
  readonly writer = new PartWriter(
    {
      transcripts: {
        write: async (parts: readonly TranscriptPart[]) => {
          await this.#gate;
          if (this.isBroken) this.refusals += 1;
          if (this.isBroken) throw new Error("the disk is full");
          this.batches.push(parts.map(({ firstEvent }) => firstEvent));
        },
      },
    } as unknown as Store,
    createLog("silent"),
    this.clock,
    this.reserve,
  );

  close(): void {
    this.#gate = new Promise((resolve) => (this.open = resolve));
  }

  write(firstEvent: number, bytes: number): Promise<boolean> {
    return this.writer.write(KEY, { firstEvent, eventCount: 1, bytes: Buffer.alloc(bytes) });
  }
}

test("parts that come together are written together, in their order", async () => {
  const disk = new Disk();
  expect(await Promise.all([disk.write(1, 10), disk.write(2, 10), disk.write(3, 10)])).toEqual([
    true,
    true,
    true,
  ]);
  expect(disk.batches).toEqual([[1, 2, 3]]);
});

verifies(
  "storage.reserve.plain",
  "within the disk's reserve parts that nobody was promised are not stored",
  async () => {
    const disk = new Disk();
    disk.reserve.isLow = true;
    const part = (firstEvent: number) => ({ firstEvent, eventCount: 1, bytes: Buffer.alloc(10) });
    expect(await disk.writer.write(KEY, part(1), false)).toBe(false);
    expect(await disk.writer.write(KEY, part(2), true)).toBe(true);
    disk.reserve.isLow = false;
    expect(await disk.writer.write(KEY, part(3), false)).toBe(true);
    expect(disk.batches).toEqual([[2], [3]]);
  },
);

test("one write is of about a megabyte", async () => {
  const disk = new Disk();
  await Promise.all(Array.from({ length: 12 }, (_, i) => disk.write(i, MIB / 4)));
  expect(disk.batches).toEqual([
    [0, 1, 2, 3, 4],
    [5, 6, 7, 8, 9],
    [10, 11],
  ]);
});

test("what is beyond 32 MiB is refused, and from 8 MiB on who can wait does", async () => {
  const disk = new Disk();
  disk.close();
  const first = Array.from({ length: 9 }, (_, i) => disk.write(i, MIB));
  expect(disk.writer.isFull).toBe(true);
  let hasRoom = false;
  const room = disk.writer.untilRoom().then(() => (hasRoom = true));
  const more = Array.from({ length: 23 }, (_, i) => disk.write(9 + i, MIB));
  expect(await disk.write(99, MIB)).toBe(false);
  expect(hasRoom).toBe(false);
  disk.open();
  await room;
  expect(disk.writer.isFull).toBe(false);
  expect(new Set(await Promise.all([...first, ...more]))).toEqual(new Set([true]));
  expect(await disk.write(100, 40 * MIB)).toBe(true);
});

test("what the disk refused is written a second later, before what came meanwhile", async () => {
  const disk = new Disk();
  disk.isBroken = true;
  const first = disk.write(1, 10);
  await until("it was refused", () => disk.refusals === 1);
  const second = disk.write(2, 10);
  await until("it waits", () => disk.clock.pending === 1);
  disk.clock.advance(999);
  expect([disk.refusals, disk.clock.pending]).toEqual([1, 1]);
  disk.isBroken = false;
  disk.clock.advance(1);
  expect(await Promise.all([first, second])).toEqual([true, true]);
  expect(disk.batches).toEqual([[1, 2]]);
});

test("a stop does not wait for a disk that takes nothing", async () => {
  const disk = new Disk();
  disk.isBroken = true;
  const written = disk.write(1, 10);
  await disk.writer.stop();
  expect(await written).toBe(false);
});

/** Lets everything that is ready go on. */
async function passed(): Promise<void> {
  for (let ticks = 0; ticks < 20; ticks++) await Promise.resolve();
}

verifies("runs.events.turns", "many readers of stored transcripts leave the database to others", async () => {
  const clock = new HandClock();
  const asked: { readonly appNumber: number; readonly answer: () => void }[] = [];
  const store = {
    transcripts: {
      next: ({ appNumber }: { readonly appNumber: number }) =>
        new Promise<null>((resolve) => asked.push({ appNumber, answer: () => resolve(null) })),
    },
  } as unknown as Store;
  const reader = new PartReader(store, clock);
  const read = (appNumber: number) => reader.next({ appNumber, id: "run" }, 0);
  const greedy = Array.from({ length: 1_000 }, () => read(1));
  await passed();
  expect(asked.map(({ appNumber }) => appNumber)).toEqual([1, 1]);
  const other = read(2);
  await passed();
  expect(asked.map(({ appNumber }) => appNumber)).toEqual([1, 1, 2]);
  for (let at = 0; at < 1_001; at++) {
    asked[at]?.answer();
    await passed();
  }
  expect(await Promise.all([...greedy, other])).toEqual(Array.from({ length: 1_001 }, () => null));
});

verifies("runs.events.turns", "a reader whose turn does not come is told so", async () => {
  const clock = new HandClock();
  const store = { transcripts: { last: () => new Promise(() => {}) } } as unknown as Store;
  const reader = new PartReader(store, clock);
  const key = { appNumber: 1, id: "run" };
  const [, , third] = [reader.last(key), reader.last(key), reader.last(key)];
  await passed();
  clock.advance(30_000);
  await expect(third).rejects.toMatchObject({ code: "overloaded", status: 503 });
});
