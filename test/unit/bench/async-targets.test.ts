import { expect, test } from "vitest";
import { judgeAsync, shareOfFloor } from "../../../bench/async-targets.ts";
import type { AcceptRound, AsyncResult } from "../../../bench/async.ts";

function accepting(callsPerSecond: number, p99Us = 10_000): AcceptRound {
  return {
    calls: 1,
    callsPerSecond,
    p50Us: 1,
    p99Us,
    statuses: { 202: 1 },
    errors: {},
    serviceCpuUs: 1,
    databaseCpuUs: 0,
    othersCores: 0,
    finishedPerSecond: 1,
  };
}

function dispatched(p50Us: number): AsyncResult["dispatch"][number] {
  return { runs: 1, sinceRequest: { p50Us: 1e6, p99Us: 1e6 }, sinceAccepted: { p50Us, p99Us: p50Us } };
}

function result(fields: Partial<AsyncResult>): AsyncResult {
  return {
    database: "SQLite",
    problem: null,
    floor: [],
    held: [],
    draining: [],
    dispatch: [],
    ...fields,
  };
}

test("accepting is judged on the median round, dispatching from the 202 on", () => {
  const verdicts = judgeAsync(
    "sqlite",
    result({
      held: [accepting(9_000), accepting(8_000, 20_000), accepting(5_000)],
      draining: [accepting(1)],
      dispatch: [dispatched(5_000), dispatched(9_000), dispatched(1_000)],
    }),
  );
  expect(verdicts.map(({ value, isMet }) => [value, isMet])).toEqual([
    [8_000, true],
    [20, true],
    [5, true],
  ]);
  expect(verdicts[0]?.spread).toEqual([5_000, 9_000]);
});

test("each database has its own rate, and a missed target is marked as missed", () => {
  const slow = result({ held: [accepting(2_999, 20_001)], dispatch: [dispatched(5_001)] });
  expect(judgeAsync("postgres", slow).map(({ isMet }) => isMet)).toEqual([false, false, false]);
  const enough = result({ held: [accepting(3_000)] });
  expect(judgeAsync("postgres", enough)[0]?.isMet).toBe(true);
  expect(judgeAsync("sqlite", enough)[0]?.isMet).toBe(false);
});

test("a run in which something went wrong meets no target", () => {
  const lost = result({
    problem: "9 of 10 accepted runs ended well",
    held: [accepting(9_000)],
    dispatch: [dispatched(1)],
  });
  expect(judgeAsync("sqlite", lost).map(({ isMet }) => isMet)).toEqual([null, null, null]);
});

test("accepting is compared with the bare group commit of its own round", () => {
  const floor = [100, 400].map((perSecond) => ({ perSecond, p50Us: 1, p99Us: 1 }));
  expect(shareOfFloor(result({ floor, held: [accepting(50), accepting(100), accepting(1)] }))).toEqual([
    0.5, 0.25,
  ]);
});
