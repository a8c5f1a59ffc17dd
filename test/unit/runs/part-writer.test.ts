import { expect, test } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import type { TranscriptPart } from "../../../src/model/transcript-part.ts";
import { PartWriter } from "../../../src/runs/part-writer.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

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
