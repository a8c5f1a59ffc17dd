import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Outcome } from "../../../src/model/outcome.ts";
import { sharedPool, returned, type TestCall, type TestPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { batchApp, batchSettings, together, WAYS } from "./batch-apps.ts";
import { noteFile } from "./stream-call.ts";

/** Makes calls of one function that leave together; how they ended, in order. */
async function outcomes(pool: TestPool, name: string, args: readonly object[]): Promise<Outcome[]> {
  const calls = await together(pool, () => args.map((each) => pool.submit(name, each)));
  return await Promise.all(calls.map(({ ended }) => ended));
}

/** Messages of those that failed, values of the others. */
function shown(ended: readonly Outcome[]): unknown[] {
  return ended.map((each) =>
    "message" in each ? each.message : each.kind === "returned" ? returned(each) : each,
  );
}

const abandon = (pool: TestPool, { call }: TestCall): void =>
  pool.pool.slots.abandon(call, { kind: "cancelled" });

/** What a function noted of its executions: its calls in each, in order. */
const lines = (note: string): string[] =>
  existsSync(note)
    ? readFileSync(note, "utf8")
        .trim()
        .split("\n")
        .map((line) => line.trim())
    : [];

describe.each(WAYS)("%s", (_, isAsync, more, concurrency) => {
  const shared = sharedPool({ main: batchApp(isAsync, more), toml: batchSettings(concurrency) });

  verifies(
    "batching.lists",
    "parameters and run_id are lists in order of arrival, and so are results",
    async () => {
      const pool = shared();
      const args = Array.from({ length: 30 }, (__, n) => (n % 3 === 0 ? { n } : { by: 10, n }));
      const calls = await together(pool, () => args.map((each) => pool.submit("add", each)));
      for (const [index, { call, ended }] of calls.entries())
        expect(returned(await ended)).toEqual({
          sum: index + (args[index]?.by ?? 1),
          size: 30,
          place: index,
          run: call.runId,
        });
      const firsts = await outcomes(pool, "first", [{ a: 1 }, { c: 3, a: 2 }, { a: 3, b: 4 }]);
      expect(shown(firsts)).toEqual([
        [1, 7, null],
        [2, 7, 3],
        [3, 4, null],
      ]);
    },
  );

  verifies("batching.misfit", "arguments that do not fit end their own call alone", async () => {
    const ended = await outcomes(shared(), "add", [{ n: 1 }, {}, { n: 2, x: 1 }, { n: 3 }]);
    expect(ended.map(({ kind }) => kind)).toEqual(["returned", "misfit", "misfit", "returned"]);
    expect(returned(ended[3]!)).toMatchObject({ sum: 4, size: 2, place: 1 });
    const [only] = await outcomes(shared(), "add", [{ m: 1 }]);
    expect(only?.kind).toBe("misfit");
  });

  verifies(
    "batching.item-error",
    "an item that is an exception, or cannot be sent, fails its own call",
    async () => {
      const what = ["fine", "raises", "not json", "large", "teapot", "strange", "exits", "last"];
      const ended = await outcomes(
        shared(),
        "items",
        what.map((each) => ({ what: each })),
      );
      expect(shown(ended)).toEqual([
        "fine",
        "ValueError: its own",
        "result.a is of type set, which JSON cannot hold",
        "the result is 2002 bytes of JSON, max_result is 1024",
        { status_code: 418, body: "teapot" },
        "LookupError: while it is encoded",
        "SystemExit: 3",
        "last",
      ]);
      expect(ended[4]).toMatchObject({ status: 418 });
      expect(ended[1]).toMatchObject({ kind: "raised", traceback: "ValueError: its own\n" });
    },
  );

  verifies(
    "batching.split",
    "after a raise halves run again until the calls at fault are alone",
    async () => {
      const note = noteFile();
      const n = [0, 1, 2, -3, 4, 5, 6, 7, -8, 9];
      const ended = await outcomes(
        shared(),
        "picky",
        n.map((each) => ({ n: each, note })),
      );
      expect(shown(ended)).toEqual([
        0,
        10,
        20,
        "ValueError: bad [-3]",
        40,
        50,
        60,
        70,
        "ValueError: bad [-8]",
        90,
      ]);
      expect(lines(note)).toEqual([
        "0 1 2 -3 4 5 6 7 -8 9",
        "0 1 2 -3 4",
        "0 1 2",
        "-3 4",
        "-3",
        "4",
        "5 6 7 -8 9",
        "5 6 7",
        "-8 9",
        "-8",
        "9",
      ]);
    },
  );

  verifies(
    "batching.on-error-fail",
    "with on_error = fail a raise ends all calls, without another try",
    async () => {
      const note = noteFile();
      const ended = await outcomes(
        shared(),
        "strict",
        [1, 2, 3].map((n) => ({ n, note })),
      );
      expect(shown(ended)).toEqual(Array(3).fill("ValueError: no"));
      expect(lines(note)).toEqual(["1 2 3"]);
    },
  );

  verifies(
    "batching.wrong-length",
    "a result of the wrong length fails all calls, and names both",
    async () => {
      const said = async (kind: string): Promise<unknown[]> =>
        shown(await outcomes(shared(), "wrong", [{ kind }, { kind }, { kind }]));
      const end = "for a batch of 3: the result must be a list of length 3, with one item for each call";
      expect(await said("short")).toEqual(
        Array(3).fill(`TypeError: wrong() returned a list of length 1 ${end}`),
      );
      expect(await said("long")).toEqual(
        Array(3).fill(`TypeError: wrong() returned a list of length 9 ${end}`),
      );
      expect(await said("text")).toEqual(
        Array(3).fill(`TypeError: wrong() returned a str of length 3 ${end}`),
      );
      expect(await said("dict")).toEqual(
        Array(3).fill(`TypeError: wrong() returned a dict of length 1 ${end}`),
      );
      expect(await said("none")).toEqual(Array(3).fill(`TypeError: wrong() returned a NoneType ${end}`));
    },
  );

  verifies(
    "batching.cancel",
    "a cancelled call ends alone and at once; the code stops when none is left",
    async () => {
      const pool = shared();
      const before = await pool.value("pid", { n: 1 });
      const [note, gate] = [noteFile(), noteFile()];
      const calls = await together(pool, () => [1, 2, 3].map((n) => pool.submit("wait", { n, note, gate })));
      const [one, two, three] = calls as [TestCall, TestCall, TestCall];
      await until("it runs", () => lines(note).length > 0);
      abandon(pool, two);
      await until("its call is over in the replica", () => pool.ready[0]?.calls.holds(two.call) === false);
      writeFileSync(gate, "");
      expect([await one.ended, await three.ended].map(returned)).toEqual([1, 3]);

      const [again, closed] = [noteFile(), noteFile()];
      const more = await together(pool, () =>
        [4, 5].map((n) => pool.submit("wait", { n, note: again, gate: closed })),
      );
      await until("it runs again", () => lines(again).length > 0);
      for (const each of more) abandon(pool, each);
      await until("the code has left", () => existsSync(`${again}.left`));
      await until("the replica is free", () => pool.ready[0]?.busy === 0);
      expect(await pool.value("pid", { n: 1 })).toBe(before);
    },
  );

  verifies(
    "batching.cancel-split",
    "a cancelled call does not run again, and its half stops alone",
    async () => {
      const pool = shared();
      const [note, gate] = [noteFile(), noteFile()];
      const calls = await together(pool, () =>
        [-1, 2, 3, 4].map((n) => pool.submit("wait", { n, note, gate })),
      );
      await until("it runs", () => lines(note).length > 0);
      abandon(pool, calls[2]!);
      await until("its call is over there", () => pool.ready[0]?.calls.holds(calls[2]!.call) === false);
      writeFileSync(gate, "");
      const ended = await Promise.all(calls.map((each) => each.ended));
      expect(shown(ended)).toEqual(["ValueError: bad", 2, { kind: "cancelled" }, 4]);
      expect(lines(note).slice(0, 5)).toEqual(["-1 2 3 4", "-1 2", "-1", "2", "4"]);
    },
  );

  test("a call that is cancelled before its batch has begun", async () => {
    const pool = shared();
    const calls = await together(pool, () => {
      const made = [1, 2, 3].map((n) => pool.submit("add", { n }));
      return made;
    });
    for (const each of calls) abandon(pool, each);
    await Promise.all(calls.map(({ ended }) => ended));
    await until("the replica is free", () => pool.ready[0]?.busy === 0);
    expect(pool.faults).toEqual([]);
  });
});
