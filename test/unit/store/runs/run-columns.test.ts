import { expect, test } from "vitest";
import { BATCH_REASONS } from "../../../../src/model/run.ts";
import { rowOf } from "../../../../src/store/column-batch.ts";
import { packRuns, runFromRow, type RunRow } from "../../../../src/store/runs/run-columns.ts";
import { sampleRun } from "../../../support/sample-run.ts";

test("a run's batch is stored with each reason and without one", () => {
  const batched = BATCH_REASONS.map((batchReason, i) => sampleRun({ batchSize: i + 1, batchReason }));
  const runs = [...batched, sampleRun()];
  const packed = packRuns(runs);
  expect(runs.map((_, row) => runFromRow(rowOf(packed, row) as RunRow))).toEqual(runs);
});

test("a reason of a later release is unknown, and the run is read", () => {
  const run = sampleRun({ batchSize: 2, batchReason: "full" });
  const row = rowOf(packRuns([run]), 0) as RunRow;
  expect(runFromRow({ ...row, batchReason: 99 })).toEqual({ ...run, batchReason: null });
});
