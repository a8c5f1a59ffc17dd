import { expect, test } from "vitest";
import { batchFiles, openaiBatches } from "../../../../src/store/batches/openai-batches.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { idAt } from "../../../support/sample-run.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();
const key = { appNumber: 1, id: idAt(1) };
const page = { appNumber: 1, limit: 5, after: idAt(1), order: "desc" } as const;
const part = { number: 1, part: 0, bytes: Buffer.from("x"), appNumber: 1, accountId: "sa-one", maxBytes: 10 };

test.each<[string, () => Promise<string[]>]>([
  ["finding a file", () => plansOf(session(), batchFiles.find, key)],
  ["listing files", () => plansOf(session(), batchFiles.list, page)],
  ["a part", () => plansOf(session(), batchFiles.part, { number: 1, part: 0 })],
  ["storing a part", () => plansOf(session(), batchFiles.append, part)],
  ["removing a file", () => plansOf(session(), batchFiles.remove, key)],
  ["finding old files", () => plansOf(session(), batchFiles.expire, { now: 5, limit: 5 })],
  ["finding a batch", () => plansOf(session(), openaiBatches.find, key)],
  [
    "finding a key",
    () => plansOf(session(), openaiBatches.findByKey, { appNumber: 1, keyHash: Buffer.from("k"), since: 0 }),
  ],
  ["listing batches", () => plansOf(session(), openaiBatches.list, page)],
  ["removing old batches", () => plansOf(session(), openaiBatches.expire, { now: 5, limit: 5 })],
])("%s reads by an index, in its order", async (_, plan) => {
  const steps = (await plan()).flatMap((of) => of.split("; "));
  expect(steps.length).toBeGreaterThan(0);
  expect(steps.filter((step) => /^SCAN |TEMP B-TREE/.test(step))).toEqual([]);
});
