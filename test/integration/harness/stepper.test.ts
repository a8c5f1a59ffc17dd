import { writeFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { sharedPool, type TestPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC_DECODER, DECODER } from "./stepper-apps.ts";
import { firstChunks, noteFile, StreamCall } from "./stream-call.ts";

const toml = (concurrency: number) =>
  `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n[limits]\nmax_chunk = "64KiB"\n` +
  `[batching.say]\nstepper = "Decoder"\n[batching.flood]\nstepper = "Flood"\n`;

/** What the app noted, in order. */
function toldBy(pool: TestPool): unknown[][] {
  const lines = pool.has("told.txt") ? pool.text("told.txt").trimEnd().split("\n") : [];
  return lines.map((line) => JSON.parse(line) as unknown[]);
}

const isRemoved = (pool: TestPool, stream: StreamCall): boolean =>
  toldBy(pool).some(([event, id]) => event === "remove" && id === stream.call.runId);

describe.each([
  ["one def at a time", DECODER, 1],
  ["several at a time", DECODER, 4],
  ["beside async def", ASYNC_DECODER, 2],
])("a stepper, %s", (_, main, concurrency) => {
  const shared = sharedPool({ main, toml: toml(concurrency) });
  const say = (values: unknown[], more: object = {}, isEager = true): StreamCall =>
    new StreamCall(shared(), "say", { values, ...more }, isEager);

  verifies("stepper.streams", "streams each of its calls by itself, and ends it with END", async () => {
    const calls = [["a", "b", "c"], ["d"], [], [1, { e: [2] }, null]].map((values) => say(values));
    const outcomes = await Promise.all(calls.map(async (call) => await call.end()));
    expect(outcomes.map(({ kind }) => kind)).toEqual(Array.from({ length: 4 }, () => "streamed"));
    expect(calls.map(({ values }) => values)).toEqual([
      ["text a", "text b", "text c"],
      ["text d"],
      [],
      ["json 1", 'json {"e":[2]}', "json null"],
    ]);
    expect(calls.map(({ streams }) => streams)).toEqual([1, 1, 1, 1]);
    const added = toldBy(shared()).filter(([event, id]) => event === "add" && id === calls[0]?.call.runId);
    expect(added).toEqual([["add", calls[0]?.call.runId, calls[0]?.call.runId, 1, "millrace-stepper-say"]]);
    expect(toldBy(shared()).filter(([event]) => event === "made")).toHaveLength(1);
  });

  verifies(
    "stepper.beside",
    "gets more calls than it takes one after another, beside other functions",
    async () => {
      const gate = noteFile();
      const calls = Array.from({ length: 9 }, (_, index) => say([index], { gate }));
      expect(await shared().value("plain", { text: "beside" })).toBe("beside");
      writeFileSync(gate, "");
      for (const [index, call] of calls.entries()) {
        expect((await call.end()).kind).toBe("streamed");
        expect(call.values).toEqual([`json ${index}`]);
      }
    },
  );

  verifies(
    "stepper.failures",
    "fails the calls that add refuses, that do not fit, or whose chunk is an exception",
    async () => {
      const gate = noteFile();
      const whole = say(["kept"], { gate });
      expect(await say([], { refused: "not that" }).end()).toMatchObject({
        kind: "raised",
        message: "ValueError: not that",
      });
      expect(await new StreamCall(shared(), "say", { texts: [] }, true).end()).toMatchObject({
        kind: "misfit",
        details: [
          { field: "values", problem: "missing" },
          { field: "texts", problem: "unknown" },
        ],
      });
      const own = say(["first", "error"]);
      expect(await own.end()).toMatchObject({ kind: "raised", message: "LookupError: its own" });
      expect(own.values).toEqual(["text first"]);
      expect(isRemoved(shared(), own)).toBe(false);
      for (const [value, outcome] of [
        ["unsendable", { kind: "unsendable", code: "result_not_json" }],
        ["huge", { kind: "unsendable", code: "result_too_large" }],
        ["strange", { kind: "raised", message: "LookupError: while it is encoded" }],
      ] as const) {
        const unsendable = say([value]);
        expect(await unsendable.end()).toMatchObject(outcome);
        await until("it is removed", () => isRemoved(shared(), unsendable));
      }
      writeFileSync(gate, "");
      expect((await whole.end()).kind).toBe("streamed");
      expect(whole.values).toEqual(["text kept"]);
    },
  );

  verifies("stepper.leave", "a call whose caller left is removed, and the others go on", async () => {
    const [left, kept] = [say([], { forever: true }), say([], { forever: true })];
    await left.has(10);
    left.cancel();
    await until("it is removed", () => isRemoved(shared(), left));
    const before = kept.chunks.length;
    await kept.has(before + 10);
    kept.cancel();
    expect((await kept.end()).kind).toBe("cancelled");
    expect(shared().exits).toEqual([]);
  });

  verifies(
    "stepper.leave",
    "a call whose caller left ends while the step goes on, and one that waits is not added",
    async () => {
      const gate = noteFile();
      const held = say([`wait for ${gate}`]);
      await until("its step has begun", () =>
        toldBy(shared()).some(([event, id]) => event === "add" && id === held.call.runId),
      );
      const waiting = say(["never"]);
      await until("it has both", () => shared().ready[0]?.calls.size === 2);
      for (const each of [held, waiting]) each.cancel();
      await until("both have ended", () => shared().ready[0]?.calls.size === 0);
      writeFileSync(gate, "");
      expect((await say(["next"]).end()).kind).toBe("streamed");
      expect(isRemoved(shared(), held)).toBe(true);
      expect(toldBy(shared()).filter(([, id]) => id === waiting.call.runId)).toEqual([]);
      expect(shared().exits).toEqual([]);
    },
  );

  verifies(
    "stepper.lag",
    "a reader that lags pauses its own call, and what waits for it is bounded",
    async () => {
      const slow = say([], { forever: true }, false);
      await slow.has(firstChunks("again".length));
      const quick = say(["on", "its", "way"]);
      expect((await quick.end()).kind).toBe("streamed");
      expect(slow.chunks).toHaveLength(firstChunks("again".length));
      slow.grant(slow.owedBytes);
      await slow.has(2 * firstChunks("again".length) - 1);
      slow.cancel();
      await until("it is removed", () => isRemoved(shared(), slow));

      // These two get chunks whether or not their readers lag.
      const late = new StreamCall(shared(), "flood", { size: 1000, count: 100 }, false);
      const stalled = new StreamCall(shared(), "flood", { size: 1000, count: 1000 }, false);
      expect(await stalled.end()).toMatchObject({
        kind: "cancelled",
        message: expect.stringContaining("max_chunk"),
      });
      await until("it is removed", () => isRemoved(shared(), stalled));
      expect(toldBy(shared())).toContainEqual(["paused", [late.call.runId, stalled.call.runId].toSorted()]);
      expect(late.outcome).toBeNull();
      late.grant(late.owedBytes);
      expect((await late.end()).kind).toBe("streamed");
      expect(late.chunks).toHaveLength(100);
    },
  );

  verifies("stepper.failures", "when step fails, so do its calls, and it is constructed anew", async () => {
    const made = () => toldBy(shared()).filter(([event]) => event === "made").length;
    for (const [value, message] of [
      ["raise", "MemoryError: no memory for it"],
      ["list", "TypeError: Decoder.step() returned list, not a dict of ids and chunks"],
    ] as const) {
      const before = made();
      const gate = noteFile();
      const calls = [say(["before"], { gate }), say([value], { gate })];
      writeFileSync(gate, "");
      for (const call of calls) {
        const outcome = await call.end();
        if (outcome.kind !== "streamed") expect(outcome).toMatchObject({ kind: "raised", message });
      }
      expect((await calls[1]?.end())?.kind).toBe("raised");
      expect((await say(["after"]).end()).kind).toBe("streamed");
      expect(made()).toBe(before + 1);
    }
    expect(shared().exits).toEqual([]);
  });
});
