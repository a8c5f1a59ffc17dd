import { existsSync, readFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { sharedPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { batchApp, batchSettings, together, WAYS } from "./batch-apps.ts";
import { StreamCall, firstChunks, frameBytes, noteFile } from "./stream-call.ts";

/** Of text that a call gets each time; and how many of these a stream may send at first. */
const SIZE = 500;
const FIRST = firstChunks(SIZE);
/** How many more may wait for credit: as many as max_chunk has room for. */
const KEPT = Math.floor((128 * 1024) / frameBytes(SIZE));

describe.each(WAYS)("%s", (_, isAsync, more, concurrency) => {
  const shared = sharedPool({ main: batchApp(isAsync, more), toml: batchSettings(concurrency) });

  /** Calls of one function that run together; all chunks of eager ones are read. */
  const streams = async (name: string, args: readonly object[], isEager = true): Promise<StreamCall[]> =>
    await together(shared(), () => args.map((each) => new StreamCall(shared(), name, each, isEager)));
  const ends = async (calls: readonly StreamCall[]): Promise<string[]> =>
    (await Promise.all(calls.map((call) => call.end()))).map((outcome) =>
      "message" in outcome && outcome.message !== undefined ? outcome.message : outcome.kind,
    );

  verifies(
    "batching.stream",
    "each call streams by itself, and ends when the generator says so",
    async () => {
      const counts = [3, 0, 700, 1, 5];
      const calls = await streams(
        "count",
        counts.map((n) => ({ n })),
      );
      expect(await ends(calls)).toEqual(Array(5).fill("streamed"));
      for (const [index, { values, streams: told }] of calls.entries()) {
        expect(values).toEqual(Array.from({ length: counts[index] ?? 0 }, (__, step) => `json ${step + 1}`));
        expect(told).toBe(1);
      }
      const sparse = await streams("sparse", [{ n: 2 }, { n: 5 }, { n: 3 }]);
      expect(await ends(sparse)).toEqual(Array(3).fill("streamed"));
      expect(sparse.map(({ values }) => values.join())).toEqual([
        "json 0,json 2,json 4",
        "json 0",
        "json 0,json 3",
      ]);
      const [alone, nothing] = [
        await streams("count", [{ n: 4 }]),
        await streams("never", [{ n: 1 }, { n: 2 }]),
      ];
      expect([await ends(alone), alone[0]?.chunks.length]).toEqual([["streamed"], 4]);
      expect(await ends(nothing)).toEqual(["streamed", "streamed"]);
    },
  );

  verifies(
    "batching.slow-reader",
    "100 callers with streams of different lengths, one of them slow",
    async () => {
      const lengths = Array.from({ length: 100 }, (__, index) => (index * 37) % 400);
      const [slow, ...fast] = await together(shared(), () =>
        lengths.map(
          (n, index) =>
            new StreamCall(shared(), "count", { n: index === 0 ? 2000 : n, size: SIZE }, index > 0),
        ),
      );
      expect(await ends(fast)).toEqual(Array(99).fill("streamed"));
      expect(fast.map(({ chunks }) => chunks.length)).toEqual(lengths.slice(1));
      slow?.cancel();
      await until("the replica is free", () => shared().ready[0]?.busy === 0);
    },
  );

  verifies("batching.stream-error", "an item that fails ends its own stream", async () => {
    const what = ["fine", "raises", "not json", "large", "end", "skip", "also"];
    const calls = await streams(
      "mixed",
      what.map((each) => ({ what: each })),
    );
    expect(await ends(calls)).toEqual([
      "streamed",
      "ValueError: its own",
      "result is of type set, which JSON cannot hold",
      "a chunk is 200000 bytes, max_chunk is 131072",
      "streamed",
      "streamed",
      "streamed",
    ]);
    expect(calls.map(({ values }) => values.join())).toEqual([
      "text first,text fine,text last",
      "text first",
      "text first",
      "text first",
      "text first",
      "text first,text last",
      "text first,text also,text last",
    ]);
    const wrong = await streams("wrong_yield", [{ n: 1 }, { n: 2 }]);
    const fault =
      "TypeError: wrong_yield() yielded a list of length 1 for a batch of 2: the result must be a list of length 2, with one item for each call";
    expect(await ends(wrong)).toEqual([fault, fault]);
    expect(wrong.map(({ values }) => values)).toEqual([["json 1"], ["json 2"]]);
  });

  verifies(
    "batching.stream-split",
    "a raise before the first yield splits, a later one ends open calls",
    async () => {
      const early = await streams("early", [{ n: 1 }, { n: -1 }, { n: 3 }]);
      expect(await ends(early)).toEqual(["streamed", "ValueError: bad", "streamed"]);
      expect(early.map(({ values }) => values)).toEqual([["json 1", "json 10"], [], ["json 3", "json 30"]]);
      expect(early[1]?.streams).toBe(0);
      const late = await streams("late", [{ n: 1 }, { n: 0 }, { n: 3 }]);
      expect(await ends(late)).toEqual(["ValueError: bad", "streamed", "ValueError: bad"]);
      expect(late.map(({ values }) => values)).toEqual([["json 1"], ["json 0"], ["json 3"]]);
    },
  );

  verifies(
    "batching.stream-cancel",
    "streams are cancelled one by one, and the last one closes the generator",
    async () => {
      const note = noteFile();
      const calls = await streams(
        "endless",
        [1, 2, 3].map((n) => ({ n, note })),
      );
      const [one, two, three] = calls as [StreamCall, StreamCall, StreamCall];
      await two.has(3);
      two.cancel();
      await until(
        "its call is over in the replica",
        () => shared().ready[0]?.calls.holds(two.call) === false,
      );
      await one.has(one.chunks.length + 5);
      expect(existsSync(`${note}.left`)).toBe(false);
      one.cancel();
      three.cancel();
      await until("the generator is closed", () => existsSync(`${note}.left`));
      await until("the replica is free", () => shared().ready[0]?.busy === 0);
    },
  );

  verifies(
    "batching.slow-reader",
    "a slow reader delays no other, and is dropped when too much waits",
    async () => {
      const calls = await streams("count", [{ n: FIRST + KEPT, size: SIZE }], false);
      // Not beyond what may wait for it: it ends once it is read.
      await calls[0]?.has(FIRST);
      calls[0]?.grant((KEPT + 2) * frameBytes(SIZE));
      expect([await ends(calls), calls[0]?.chunks.length]).toEqual([["streamed"], FIRST + KEPT]);

      const [slow, ...fast] = await together(shared(), () => [
        new StreamCall(shared(), "count", { n: 1000, size: SIZE }, false),
        ...[1000, 900, 20].map((n) => new StreamCall(shared(), "count", { n, size: SIZE }, true)),
      ]);
      expect(await ends(fast)).toEqual(Array(3).fill("streamed"));
      expect(fast.map(({ chunks }) => chunks.length)).toEqual([1000, 900, 20]);
      expect(await slow?.end()).toMatchObject({
        kind: "cancelled",
        message: expect.stringContaining("max_chunk"),
      });
      expect(slow?.chunks.length).toBe(FIRST);

      // Kept chunks come in order, and the end behind them.
      const [late] = await together(shared(), () => [
        new StreamCall(shared(), "count", { n: FIRST + KEPT, size: SIZE }, false),
        new StreamCall(shared(), "count", { n: 500, size: SIZE }, true),
      ]);
      await late?.has(FIRST);
      late?.grant(frameBytes(SIZE));
      await late?.has(FIRST + 1);
      expect(late?.outcome).toBeNull();
      late?.grant((KEPT + 2) * frameBytes(SIZE));
      expect([(await late?.end())?.kind, late?.chunks.length]).toEqual(["streamed", FIRST + KEPT]);
    },
  );

  verifies(
    "batching.stream-cancel",
    "the last call of a batch ends at its cancel, also while chunks wait for its reader",
    async () => {
      const before = shared().exits.length;
      const [slow, fast] = await together(shared(), () => [
        new StreamCall(shared(), "count", { n: FIRST + 20, size: SIZE }, false),
        new StreamCall(shared(), "count", { n: FIRST + 20, size: SIZE }, true),
      ]);
      await fast?.end();
      await slow?.has(FIRST);
      slow?.cancel();
      await until("its call is over in the replica", () => slow?.call.phase === "over");
      expect(shared().exits.length).toBe(before);
    },
  );

  verifies(
    "batching.backpressure",
    "the generator waits when no reader has room, and cancels still work",
    async () => {
      const note = noteFile();
      const calls = await streams(
        "endless",
        [1, 2].map((n) => ({ n, note, size: SIZE })),
        false,
      );
      const [one, two] = calls as [StreamCall, StreamCall];
      const made = (): number => Number(existsSync(note) ? readFileSync(note, "utf8") : 0);
      await one.has(FIRST);
      await two.has(FIRST);
      if (concurrency > 1) await shared().value("pid", { n: 1 });
      expect(made()).toBe(FIRST);
      one.grant(frameBytes(SIZE));
      await one.has(FIRST + 1);
      expect([made(), two.chunks.length]).toEqual([FIRST + 1, FIRST]);
      two.grant(2 * frameBytes(SIZE));
      await two.has(FIRST + 2);
      // The first has room for what is kept only after its reader has read.
      expect(one.chunks.length).toBe(FIRST + 1);
      one.cancel();
      two.cancel();
      await until("the generator is closed", () => existsSync(`${note}.left`));
      await until("the replica is free", () => shared().ready[0]?.busy === 0);
    },
  );
});
