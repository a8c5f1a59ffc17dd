import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { TranscriptPart } from "../../../src/model/run.ts";
import { PartReader, PartWriter } from "../../../src/runs/transcript-parts.ts";
import {
  LiveTranscript,
  plainTranscript,
  storedTranscript,
  allChunks,
} from "../../../src/runs/transcript.ts";
import type { Transcript, TranscriptOptions } from "../../../src/runs/transcript.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const KEY = { appNumber: 1, id: "0197c3a0-7e1b-7abc-8def-0123456789ab" };
const KIB = 1024;

/** Keeps parts as the store does, when it is let: a disk that takes its time cannot be had on demand. */
class Shelf {
  parts: TranscriptPart[] = [];
  isBroken = false;
  #gate: Promise<void> = Promise.resolve();
  open: () => void = () => undefined;

  readonly store = {
    transcripts: {
      write: async (parts: readonly TranscriptPart[]) => {
        await this.#gate;
        if (this.isBroken) throw new Error("the disk is full");
        this.parts.push(...parts);
      },
      next: ({ after }: { readonly after: number }) =>
        Promise.resolve(
          this.parts.find(({ firstEvent, eventCount }) => firstEvent + eventCount > after + 1) ?? null,
        ),
      trim: ({ before }: { readonly before: number }) => {
        this.parts = this.parts.filter(({ firstEvent, eventCount }) => firstEvent + eventCount > before);
        return Promise.resolve();
      },
    },
  } as unknown as Store;
  readonly writer = new PartWriter(this.store, createLog("silent"), systemClock);
  readonly reader = new PartReader(this.store, systemClock);

  close(): void {
    this.#gate = new Promise((resolve) => (this.open = resolve));
  }

  transcript(options: Partial<TranscriptOptions> = {}): LiveTranscript {
    const { store, writer, reader } = this;
    return new LiveTranscript({
      key: KEY,
      firstEvent: 1,
      clock: null,
      store,
      writer,
      reader,
      maxBytes: 64 * KIB * KIB,
      isKept: true,
      ...options,
    });
  }
}

const text = (of: string) => ({ isText: true, bytes: Buffer.from(of) });
/** A chunk of 1 KiB that says which it is. */
const kib = (event: number) => text(`${event} `.padEnd(KIB, "."));

async function readAll(transcript: Transcript, after = 0): Promise<number[]> {
  const numbers: number[] = [];
  let last = after;
  for (let chunks = await transcript.read(last); chunks; chunks = await transcript.read(last)) {
    for (const { event, bytes } of chunks) {
      expect(bytes.toString()).toMatch(new RegExp(`^${event}\\b`));
      numbers.push(event);
      last = event;
    }
  }
  return numbers;
}

const range = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i);

describe("the transcript of a run under way", () => {
  test("is read as it grows, by who is there and by who comes later", async () => {
    const transcript = new Shelf().transcript();
    const readers = [readAll(transcript), readAll(transcript, 2)];
    for (const event of range(1, 5)) {
      transcript.add(text(`${event}`));
      await Promise.resolve();
    }
    readers.push(readAll(transcript, 4));
    transcript.end();
    expect(await Promise.all(readers)).toEqual([range(1, 5), range(3, 5), [5]]);
    expect(await transcript.read(5)).toBeNull();
    expect(transcript.count).toBe(5);
  });

  test("is the same whether its parts are in memory, on their way or stored", async () => {
    const shelf = new Shelf();
    const transcript = shelf.transcript();
    shelf.close();
    for (const event of range(1, 100)) transcript.add(kib(event));
    expect([shelf.parts.length, transcript.isSettled]).toEqual([0, false]);
    const readers = [0, 30, 99].map((after) => readAll(transcript, after));
    shelf.open();
    await transcript.settle();
    expect(shelf.parts.length).toBeGreaterThan(4);
    expect(transcript.isSettled).toBe(true);
    readers.push(readAll(transcript), readAll(transcript, 50));
    const last = transcript.end();
    expect(await Promise.all(readers)).toEqual([
      range(1, 100),
      range(31, 100),
      [100],
      range(1, 100),
      range(51, 100),
    ]);
    if (last) shelf.parts.push(last);
    expect(await readAll(storedTranscript(shelf.reader, KEY))).toEqual(range(1, 100));
  });

  test("loses its beginning past its limit, and keeps its end", async () => {
    const shelf = new Shelf();
    const transcript = shelf.transcript({ maxBytes: 128 * KIB });
    for (const event of range(1, 1_000)) {
      transcript.add(kib(event));
      if (event % 40 === 0) await transcript.settle();
    }
    transcript.end();
    await transcript.settle();
    const numbers = await readAll(transcript);
    expect(numbers.at(-1)).toBe(1_000);
    expect(numbers).toEqual(range(numbers[0] ?? 0, 1_000));
    expect(numbers.length).toBeLessThanOrEqual(128);
    expect(numbers.length).toBeGreaterThan(64);
    const stored = shelf.parts.reduce((sum, { bytes }) => sum + bytes.length, 0);
    expect(stored).toBeLessThanOrEqual(128 * KIB);
  });

  test("cut while parts are on their way, it loses none of them", async () => {
    const shelf = new Shelf();
    const transcript = shelf.transcript({ maxBytes: 64 * KIB });
    shelf.close();
    for (const event of range(1, 200)) transcript.add(kib(event));
    shelf.open();
    await transcript.settle();
    transcript.end();
    const numbers = await readAll(transcript);
    expect(numbers).toEqual(range(numbers[0] ?? 0, 200));
    expect(numbers.length).toBeGreaterThan(32);
  });

  test("knows when it has passed its limit", () => {
    const transcript = new Shelf().transcript({ maxBytes: 2 * KIB });
    transcript.add(kib(1));
    expect(transcript.isTooLong).toBe(false);
    transcript.add(kib(2));
    expect(transcript.isTooLong).toBe(true);
  });

  test("not kept, it leaves nothing behind and has its last chunks for who follows", async () => {
    const shelf = new Shelf();
    const transcript = shelf.transcript({ isKept: false });
    const follower = readAll(transcript);
    for (const event of range(1, 1_000)) {
      transcript.add(kib(event));
      if (event % 64 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(transcript.end()).toBeNull();
    expect(await follower).toEqual(range(1, 1_000));
    const late = await readAll(transcript);
    expect(late.at(-1)).toBe(1_000);
    expect(late.length).toBeLessThan(150);
    expect([shelf.parts.length, transcript.isSettled]).toEqual([0, true]);
  });

  test("not kept, it holds next to nothing where nobody follows", async () => {
    const transcript = new Shelf().transcript({ isKept: false });
    for (const event of range(1, 1_000)) transcript.add(kib(event));
    transcript.end();
    expect((await readAll(transcript)).length).toBeLessThan(35);
  });

  test("of a plain value is one chunk, or none", async () => {
    const value = new Shelf().transcript();
    const reader = readAll(value);
    value.endPlain(text("1"));
    expect(await reader).toEqual([1]);
    const nothing = new Shelf().transcript();
    nothing.endPlain(null);
    expect(await nothing.read(0)).toBeNull();
  });

  test("lets a reader go who waits no longer", async () => {
    const transcript = new Shelf().transcript();
    const left = new AbortController();
    const waiting = transcript.read(0, left.signal);
    left.abort();
    expect(await waiting).toBeNull();
    expect(await transcript.read(0, left.signal)).toBeNull();
  });

  test("goes on without a part that could not be stored, and the gap can be seen", async () => {
    const shelf = new Shelf();
    const transcript = shelf.transcript();
    shelf.isBroken = true;
    for (const event of range(1, 36)) transcript.add(kib(event));
    await shelf.writer.stop();
    await transcript.settle();
    transcript.end();
    const numbers = await readAll(transcript);
    expect([numbers[0], numbers.at(-1)]).toEqual([17, 36]);
    await expect(allChunks(transcript).next()).rejects.toThrow("no longer stored");
  });

  verifies(
    "runs.events.end-number",
    "stores its last chunk with the record, whatever became of it",
    async () => {
      for (const state of ["stored", "on its way", "given up"]) {
        const shelf = new Shelf();
        const transcript = shelf.transcript();
        if (state === "on its way") shelf.close();
        shelf.isBroken = state === "given up";
        // Two whole parts, and nothing after them.
        for (const event of range(1, 32)) transcript.add(kib(event));
        if (state === "given up") await shelf.writer.stop();
        if (state !== "on its way") await transcript.settle();
        const last = transcript.end();
        const stored = last && [last.firstEvent, last.eventCount];
        expect([state, stored]).toEqual([state, state === "stored" ? null : [17, 16]]);
        shelf.open();
        await transcript.settle();
        expect([await transcript.last(), (await readAll(transcript, 16)).length]).toEqual([32, 16]);
      }
    },
  );

  test("gives what is in memory at once, and nothing else", async () => {
    const shelf = new Shelf();
    const transcript = shelf.transcript();
    for (const event of range(1, 20)) transcript.add(kib(event));
    await transcript.settle();
    const atHand = (after: number) => transcript.atHand(after)?.map(({ event }) => event) ?? null;
    expect(atHand(16)).toEqual([17, 18, 19, 20]);
    expect(atHand(18)).toEqual([19, 20]);
    // Those before are stored, and those after have not come.
    expect([atHand(0), atHand(15), atHand(20), atHand(1_000)]).toEqual([null, null, null, null]);
  });
});

test("the transcript of a stored plain value is that value, once", async () => {
  const transcript = plainTranscript(text("1"));
  expect(await readAll(transcript)).toEqual([1]);
  expect(await transcript.read(1)).toBeNull();
  expect(await plainTranscript(null).read(0)).toBeNull();
  expect([await transcript.last(), await plainTranscript(null).last()]).toEqual([1, 0]);
});

test("one that is to outlive a crash is stored twice a second, however little there is", async () => {
  const clock = new HandClock();
  const shelf = new Shelf();
  const transcript = shelf.transcript({ clock });
  transcript.add(text("1"));
  clock.advance(400);
  transcript.add(text("2"));
  expect(shelf.parts).toEqual([]);
  clock.advance(100);
  await transcript.settle();
  expect(shelf.parts.map(({ firstEvent, eventCount }) => [firstEvent, eventCount])).toEqual([[1, 2]]);
  clock.advance(10_000);
  transcript.add(text("3"));
  expect([clock.pending, transcript.end()?.firstEvent, clock.pending]).toEqual([1, 3, 0]);
  expect(await readAll(transcript)).toEqual([1, 2, 3]);
});

test("one that was begun by a service that is gone goes on from what is stored", async () => {
  const shelf = new Shelf();
  const before = shelf.transcript({ clock: new HandClock() });
  for (let event = 1; event <= 40; event++) before.add(kib(event));
  await before.settle();
  const stored = before.count - 8;
  const after = shelf.transcript({ firstEvent: stored + 1 });
  expect([after.count, after.end()]).toEqual([stored, null]);
  expect(await readAll(after)).toEqual(Array.from({ length: stored }, (_, i) => i + 1));
});
