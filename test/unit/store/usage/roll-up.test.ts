import { expect, test } from "vitest";
import type { Run } from "../../../../src/model/run.ts";
import { packColumns } from "../../../../src/store/column-batch.ts";
import { packRuns } from "../../../../src/store/runs/run-columns.ts";
import { DAY_MS, joinUses, rollUp, useOfAttempt, USES } from "../../../../src/store/usage/roll-up.ts";
import { sampleRun } from "../../../support/sample-run.ts";

const DAY = 20_000;
const at = (ms: number): Partial<Run> => ({ completedAt: DAY * DAY_MS + ms, updatedAt: 0 });
const terms = {
  priority: 0,
  maxAttempts: null,
  concurrencyKey: null,
  fairnessKey: null,
  notBefore: null,
  startBy: null,
  endBy: null,
};
const all = (runs: readonly Run[]): number[] => runs.map((_, i) => i);

test("runs are added up by app, day and account, in one order", () => {
  const runs = [
    sampleRun({ ...at(5), appNumber: 2, accountId: "sa-2", runMs: 1.2345, state: "failure" }),
    sampleRun({ ...at(-1), appNumber: 2, accountId: "sa-2", runMs: null, state: "cancelled" }),
    sampleRun({ ...at(6), appNumber: 2, accountId: "sa-2", runMs: 1, requestBytes: 7, outputTokens: 3 }),
    sampleRun({ ...at(7), appNumber: 1, accountId: null, gpuMs: 2.5 }),
    sampleRun({ ...at(8), appNumber: 2, accountId: "sa-1" }),
  ];
  const uses = rollUp(packRuns(runs), all(runs));
  expect(uses.map(({ appNumber, day, accountId }) => [appNumber, day, accountId])).toEqual([
    [1, DAY, ""],
    [2, DAY - 1, "sa-2"],
    [2, DAY, "sa-1"],
    [2, DAY, "sa-2"],
  ]);
  expect(uses[0]).toMatchObject({ succeeded: 1, gpuUs: 2_500, runUs: 1_500, tag: "" });
  expect(uses[1]).toMatchObject({ succeeded: 0, cancelled: 1, runUs: 0 });
  expect(uses[3]).toMatchObject({
    succeeded: 1,
    failed: 1,
    runUs: 1_235 + 1_000,
    requestBytes: 7,
    outputTokens: 3,
  });
  expect(rollUp(packRuns(runs), [3])).toEqual([uses[0]]);
  expect(rollUp(packRuns(runs), [])).toEqual([]);
});

test("each tag of a run gets all of it, without the account", () => {
  const runs = [
    sampleRun({ ...at(1), terms: { ...terms, tags: ["b", "a", "b"] }, runMs: 2 }),
    sampleRun({ ...at(1), terms: { ...terms, tags: ["a"] }, runMs: 3 }),
    sampleRun({ ...at(1), terms: { ...terms, tags: [] }, runMs: 4 }),
  ];
  const uses = rollUp(
    packColumns(
      runs.map((run) => ({ run })),
      USES,
    ),
    all(runs),
  );
  expect(uses.map(({ tag, accountId, succeeded, runUs }) => [tag, accountId, succeeded, runUs])).toEqual([
    ["", "sa-sample", 3, 9_000],
    ["a", "", 2, 5_000],
    ["b", "", 1, 2_000],
  ]);
});

test("a failed attempt has its time, and is no call", () => {
  const attempt = { endedAt: DAY * DAY_MS, runMs: 1.5, gpuMs: null };
  const uses = useOfAttempt(attempt, { appNumber: 1, accountId: "sa-1", tags: ["a", "a"] });
  expect(
    uses.map(({ tag, accountId, retried, runUs, failed }) => [tag, accountId, retried, runUs, failed]),
  ).toEqual([
    ["", "sa-1", 1, 1_500, 0],
    ["a", "", 1, 1_500, 0],
  ]);
  expect(joinUses([...uses, ...uses])).toMatchObject([
    { retried: 2, runUs: 3_000 },
    { tag: "a", retried: 2 },
  ]);
});
