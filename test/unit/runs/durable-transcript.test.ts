import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { TranscriptPart } from "../../../src/model/run.ts";
import type { CheckpointFate } from "../../../src/runs/checkpoint-writer.ts";
import { PartReader, PartWriter } from "../../../src/runs/transcript-parts.ts";
import { LiveTranscript } from "../../../src/runs/transcript.ts";
import type { CheckpointWrite } from "../../../src/store/runs/checkpoints.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const KEY = { appNumber: 1, id: "0197c3a0-7e1b-7abc-8def-0123456789ab" };
const KIB = 1024;
const CHECKPOINT = { value: Buffer.from("1"), sent: 0, attempt: 1, at: 0 };

/** A store whose writes of parts wait until a test lets them pass: a disk that takes its time cannot be had on demand. */
class SlowStore {
  parts: TranscriptPart[] = [];
  reads = 0;
  readonly #gate = Promise.withResolvers<void>();
  readonly clock = new HandClock();

  letPass(): void {
    this.#gate.resolve();
  }

  transcript(): LiveTranscript {
    const store = {
      transcripts: {
        write: async (parts: readonly TranscriptPart[]) => {
          await this.#gate.promise;
          this.parts.push(...parts);
        },
        next: async ({ after }: { readonly after: number }) => {
          this.reads += 1;
          return this.parts.find(({ firstEvent, eventCount }) => firstEvent + eventCount > after + 1) ?? null;
        },
      },
    } as unknown as Store;
    const write = async ({ part }: CheckpointWrite): Promise<CheckpointFate> => {
      this.parts = this.parts.filter((other) => other.firstEvent !== part?.firstEvent);
      if (part) this.parts.push(part);
      return "stored";
    };
    return new LiveTranscript({
      key: KEY,
      firstEvent: 1,
      clock: this.clock,
      store,
      writer: new PartWriter(store, createLog("silent"), systemClock),
      reader: new PartReader(store, systemClock),
      maxBytes: KIB * KIB,
      isKept: true,
      durable: () => ({
        key: KEY,
        claim: { owner: "one", fence: 1 },
        writer: { write },
        resumedBytes: null,
        onStored: () => {},
        onLost: () => {},
      }),
    });
  }
}

const text = (of: string) => ({ isText: true, bytes: Buffer.from(of) });

async function readAll(transcript: LiveTranscript): Promise<number[]> {
  const numbers: number[] = [];
  for (let chunks = await transcript.read(0); chunks; chunks = await transcript.read(numbers.at(-1) ?? 0)) {
    if (chunks.length === 0) throw new Error("a read that gave nothing");
    numbers.push(...chunks.map(({ event }) => event));
  }
  return numbers;
}

const range = (last: number): number[] => Array.from({ length: last }, (_, i) => i + 1);

verifies(
  "checkpoint.stored-first",
  "a reader gets every chunk whose part is on its way to the store when the first checkpoint comes",
  async () => {
    const slow = new SlowStore();
    const transcript = slow.transcript();
    for (const event of range(40)) transcript.add(text(`${event}`.padEnd(KIB, ".")));
    transcript.checkpoint(CHECKPOINT, () => {});
    const early = readAll(transcript);
    await setImmediate();
    slow.letPass();
    await transcript.settle();
    transcript.add(text("41"));
    await transcript.settle();
    transcript.end();
    expect(await early).toEqual(range(41));
    expect(await readAll(transcript)).toEqual(range(41));
  },
);

test("chunks that gathered before the first checkpoint are not stored beside it", async () => {
  const slow = new SlowStore();
  const transcript = slow.transcript();
  for (const event of range(20)) transcript.add(text(`${event}`.padEnd(KIB, ".")));
  // These wait for their half second, the part before them for the disk.
  transcript.checkpoint(CHECKPOINT, () => {});
  slow.clock.advance(1_000);
  slow.letPass();
  await transcript.settle();
  expect(slow.clock.pending).toBe(0);
  transcript.end();
  expect(await readAll(transcript)).toEqual(range(20));
  expect(slow.parts.flatMap(({ firstEvent }) => firstEvent)).toEqual([1, 17]);
});
