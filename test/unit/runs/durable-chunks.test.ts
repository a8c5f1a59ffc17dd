import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { CheckpointFate } from "../../../src/runs/checkpoint-writer.ts";
import { DurableChunks } from "../../../src/runs/durable-chunks.ts";
import { chunksAfter, PartBuilder } from "../../../src/runs/transcript-parts.ts";
import type { CheckpointWrite } from "../../../src/store/runs/checkpoints.ts";
import { verifies } from "../../verifies.ts";

const CLAIM = { owner: "one", fence: 3 };
const KEY = { appNumber: 1, id: "run" };

/** The chunks of a run, and a store that answers when a test wants it to. */
class Played {
  readonly open = new PartBuilder();
  readonly writes: CheckpointWrite[] = [];
  readonly answers: ((fate: CheckpointFate) => void)[] = [];
  readonly told: string[] = [];
  readonly chunks: DurableChunks;

  constructor(before: ConstructorParameters<typeof DurableChunks>[2] = null) {
    this.open.firstEvent = 5;
    this.chunks = new DurableChunks(
      this.open,
      {
        key: KEY,
        claim: CLAIM,
        writer: {
          write: (write) => {
            this.writes.push(write);
            return new Promise((resolve) => this.answers.push(resolve));
          },
        },
        onStored: (bytes, wireBytes) => this.told.push(`stored ${bytes} ${wireBytes}`),
        onLost: (fate) => this.told.push(fate),
        onChange: () => {},
      },
      before,
    );
  }

  add(...texts: string[]): void {
    for (const text of texts) {
      this.open.add({ isText: true, bytes: Buffer.from(text) });
      this.chunks.note(text.length + 10);
    }
  }

  async answer(fate: CheckpointFate = "stored"): Promise<void> {
    await setImmediate();
    this.answers.shift()?.(fate);
    await setImmediate();
  }

  /** What may be read from memory. */
  get shown(): (readonly [number, string])[] {
    return this.chunks.recent.flatMap((part) =>
      chunksAfter(part, 0).map(({ event, bytes }) => [event, bytes.toString()] as const),
    );
  }
}

const made = (sent: number) => ({ value: Buffer.from("1"), sent, attempt: 2, at: 0 });

verifies("checkpoint.stored-first", "chunks can be read once they are stored, and not before", async () => {
  const played = new Played();
  played.add("a", "b");
  await setImmediate();
  played.add("c");
  expect([played.shown, played.writes.length, played.chunks.isBusy]).toEqual([[], 1, true]);
  await played.answer();
  expect(played.shown).toEqual([
    [5, "a"],
    [6, "b"],
  ]);
  // What gathered meanwhile is the next write, with the small part before it.
  expect(played.writes.map(({ part, isGrown }) => [part?.firstEvent, part?.eventCount, isGrown])).toEqual([
    [5, 2, false],
    [5, 3, true],
  ]);
  await played.answer();
  expect(played.shown.map(([event]) => event)).toEqual([5, 6, 7]);
  expect(played.told).toEqual(["stored 10 22", "stored 5 11"]);
  expect(played.chunks.isBusy).toBe(false);
});

test("a checkpoint is stored with the chunks before it", async () => {
  const played = new Played();
  const fates: CheckpointFate[] = [];
  played.add("a");
  played.chunks.add(made(5), (fate) => fates.push(fate));
  await played.answer();
  expect(played.writes).toMatchObject([
    { ...KEY, ...CLAIM, part: { firstEvent: 5 }, checkpoint: { sent: 5 } },
  ]);
  expect(fates).toEqual(["stored"]);
  played.chunks.add(made(5), (fate) => fates.push(fate));
  await played.answer();
  expect(played.writes.at(-1)).toMatchObject({ part: null, checkpoint: { sent: 5 } });
  expect(fates).toHaveLength(2);
});

test("a part that was given up before the first checkpoint is stored first", async () => {
  const played = new Played(Promise.resolve({ firstEvent: 1, eventCount: 4, bytes: Buffer.from("x") }));
  played.add("a");
  played.chunks.add(made(5), () => {});
  await played.answer();
  await played.answer();
  expect(played.writes.map(({ part, checkpoint }) => [part?.firstEvent, checkpoint?.sent])).toEqual([
    [1, undefined],
    [5, 5],
  ]);
});

verifies(
  "checkpoint.fenced",
  "of a run that another service has, nothing more is shown or stored",
  async () => {
    const played = new Played();
    const fates: CheckpointFate[] = [];
    played.add("a");
    await setImmediate();
    played.chunks.add(made(5), (fate) => fates.push(fate));
    await played.answer("lost");
    expect([played.shown, played.told, fates]).toEqual([[], ["lost"], ["lost"]]);
    played.add("b");
    played.chunks.add(made(6), (fate) => fates.push(fate));
    await setImmediate();
    expect([played.writes.length, fates, played.chunks.isBusy]).toEqual([1, ["lost", "lost"], false]);
  },
);

test("large parts are not written again", async () => {
  const played = new Played();
  played.add("x".repeat(5_000));
  await played.answer();
  played.add("y");
  await played.answer();
  expect(played.writes.map(({ part, isGrown }) => [part?.firstEvent, isGrown])).toEqual([
    [5, false],
    [6, false],
  ]);
  expect(played.shown.map(([event]) => event)).toEqual([5, 6]);
});
