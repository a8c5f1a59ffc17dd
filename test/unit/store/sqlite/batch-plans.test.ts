import { beforeAll, expect, test } from "vitest";
import { projects } from "../../../../src/store/accounts/memberships.ts";
import { apps } from "../../../../src/store/apps/apps.ts";
import { batchLines } from "../../../../src/store/batches/batch-lines.ts";
import { delayedLines } from "../../../../src/store/batches/delayed-lines.ts";
import { lineBatches } from "../../../../src/store/batches/line-batches.ts";
import { payloads } from "../../../../src/store/runs/payloads.ts";
import { retention } from "../../../../src/store/runs/retention.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { idAt } from "../../../support/sample-run.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();
const id = idAt(1);
let appNumber = 0;
let number = 0;

beforeAll(async () => {
  await projects.insert.run(session(), { id: "p-plans", name: "one", createdAt: 1 });
  const app = { projectId: "p-plans", name: "app", createdAt: 1 };
  appNumber = (await apps.insertOrFind.run(session(), app)).number;
  const nothing = { ip: null, accountId: null, user: null, wishes: null, trace: null, webhookEndpoint: null };
  const none = { keyHash: null, fingerprint: null, sealedSecret: null, retryOf: null };
  const made = { id, appNumber, functionName: "run", createdAt: 1, since: 0, ...nothing, ...none };
  const batch = await lineBatches.insert.run(session(), made);
  number = typeof batch === "string" ? 0 : batch.number;
});

const open = () => ({ number, appNumber, now: 5, limit: 10 });

test.each<[string, () => Promise<string[]>]>([
  ["finding a batch", () => plansOf(session(), lineBatches.find, { appNumber, id })],
  [
    "finding a key",
    () => plansOf(session(), lineBatches.findByKey, { appNumber, keyHash: Buffer.from("k"), since: 0 }),
  ],
  ["a list", () => plansOf(session(), lineBatches.list, { appNumber, limit: 5, before: id })],
  ["the open batches", () => plansOf(session(), lineBatches.open, undefined)],
  ["the digests", () => plansOf(session(), lineBatches.digests, { number, from: 0, limit: 5 })],
  ["a block", () => plansOf(session(), lineBatches.block, { number, line: 7 })],
  ["giving up an upload", () => plansOf(session(), lineBatches.drop, { number, now: 5, delivery: null })],
  ["removing", () => plansOf(session(), lineBatches.remove, { cutoff: 9, limit: 5 })],
  ["counting open lines", () => plansOf(session(), batchLines.openCount, open())],
  ["counting running lines", () => plansOf(session(), batchLines.runningCounts, [open(), open()])],
  ["delayed lines", () => plansOf(session(), delayedLines.due, { number, until: 5, limit: 5 })],
  ["the runs of open lines", () => plansOf(session(), batchLines.openRuns, { number, after: -1, limit: 5 })],
  [
    "collecting",
    () => plansOf(session(), batchLines.collect, { ...open(), ended: 0, rate: { perSecond: 0, at: 1 } }),
  ],
  [
    "a page in the order of the file",
    () => plansOf(session(), batchLines.page, { number, order: "input", after: -1, limit: 5 }),
  ],
  [
    "a page in the order of the ends",
    () => plansOf(session(), batchLines.page, { number, order: "finished", after: 0, limit: 5 }),
  ],
  [
    "the runs of a page",
    () => plansOf(session(), batchLines.runs, { appNumber, ids: [id], side: "result", maxBytes: 9 }),
  ],
  ["a part of a result", () => plansOf(session(), payloads.resultPart, { appNumber, id, from: 0, bytes: 9 })],
  ["the failures", () => plansOf(session(), batchLines.failures, { number, after: -1, limit: 5 })],
  ["the batch of a run", () => plansOf(session(), batchLines.ofRun, { appNumber, id })],
  ["removing old runs", () => plansOf(session(), retention.removeRuns, { cutoff: 9, limit: 5 })],
  ["keeping a cap", () => plansOf(session(), retention.removeOldest, { limit: 5, keep: "nothing" })],
  ["the same of contents", () => plansOf(session(), retention.removeOldest, { limit: 5, keep: "record" })],
  ["removing old contents", () => plansOf(session(), retention.expire, { appNumber, cutoff: 9, limit: 5 })],
])("%s reads no table from end to end, and sorts no batch", async (name, plan) => {
  const steps = (await plan()).flatMap((of) => of.split("; "));
  expect(steps.length).toBeGreaterThan(0);
  // Few batches are open; what is found by a common table expression is no table.
  const isShort = (step: string) => /INDEX line_batches_(open|ended)|CONSTANT|SCAN (found|l)\b/.test(step);
  expect(steps.filter((step) => step.startsWith("SCAN ") && !isShort(step))).toEqual([]);
  // A page is read in the order of an index.
  const isPage = /^a page|failures/.test(name);
  expect(isPage && steps.some((step) => step.includes("TEMP B-TREE"))).toBe(false);
});
