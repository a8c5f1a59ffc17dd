import { beforeAll, describe, expect, test } from "vitest";
import { uuidv7 } from "../../../support/ids.ts";
import { apps } from "../../../../src/store/apps/apps.ts";
import { claims } from "../../../../src/store/runs/claims.ts";
import { deliveries } from "../../../../src/store/runs/deliveries.ts";
import { retention } from "../../../../src/store/runs/retention.ts";
import { packEnded } from "../../../../src/store/runs/ended-runs.ts";
import { runs } from "../../../../src/store/runs/runs.ts";
import { limits } from "../../../../src/store/runs/terms.ts";
import { transcripts } from "../../../../src/store/runs/transcripts.ts";
import { forwardedRun } from "../../../support/forwarded-runs.ts";
import {
  queuedRun,
  sampleDelivery,
  sampleEnd,
  samplePayload,
  sampleRun,
} from "../../../support/sample-run.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";
import { verifies } from "../../../verifies.ts";

const session = sqliteSession();

type Filter = Omit<Parameters<typeof runs.list.run>[1], "appNumber" | "limit">;

test.each<[Filter, string]>([
  [{}, "SEARCH runs USING PRIMARY KEY (app_number=? AND id<?)"],
  [{ state: "queued" }, "SEARCH runs USING INDEX runs_unfinished (app_number=? AND id<?)"],
  [{ state: "running", before: uuidv7(1) }, "SEARCH runs USING INDEX runs_running (app_number=? AND id<?)"],
  [{ state: "failure" }, "SEARCH runs USING INDEX runs_failed (app_number=? AND id<?)"],
  [{ asyncOnly: true }, "SEARCH runs USING INDEX runs_async (app_number=? AND id<?)"],
  [{ state: "cancelled" }, "SEARCH runs USING INDEX runs_cancelled (app_number=? AND id<?)"],
  [
    { asyncOnly: true, state: "failure" },
    "SEARCH runs USING INDEX runs_async_failed (app_number=? AND id<?)",
  ],
  [
    { asyncOnly: true, state: "cancelled" },
    "SEARCH runs USING INDEX runs_async_cancelled (app_number=? AND id<?)",
  ],
])("a listing with %j reads only what it lists, in order", async (filter, plan) => {
  expect(await plansOf(session(), runs.list, { appNumber: 1, limit: 50, ...filter })).toEqual([plan]);
});

describe("with a little of everything stored", () => {
  const LEASE = { owner: "one" };
  // A whole table read, or all of an index: only the few runs and deliveries that someone holds may be.
  const LONG =
    /SCAN (?!found|queued|ahead|owners|usage|apps|runs USING INDEX runs_running|deliveries USING INDEX deliveries_held)/;

  beforeAll(async () => {
    const kept = () => ({
      payload: samplePayload(),
      part: { firstEvent: 1, eventCount: 1, bytes: Buffer.from("x") },
    });
    const ends = Array.from({ length: 4 }, () => sampleEnd(sampleRun(), kept()));
    const due = sampleRun({ webhookState: "pending" });
    const accepted = { run: queuedRun(), payload: samplePayload(), owner: null };
    const forwarded = forwardedRun({
      run: due,
      payload: samplePayload(),
      delivery: sampleDelivery(due, { nextAt: 1 }),
    });
    await runs.insertFinished.run(session(), runs.insertFinished.pack([packEnded(ends)]));
    await runs.accept.run(session(), runs.accept.pack([accepted, forwarded.accepted]));
    await claims.finish.run(session(), claims.finish.pack([forwarded.finished]));
  });

  test("reading a whole table is noticed", async () => {
    expect((await plansOf(session(), runs.count, {})).join()).toMatch(LONG);
  });

  test("what an owner holds is found by the indexes of what is held", async () => {
    const { owner } = LEASE;
    for (const appNumber of [1, null]) {
      expect((await plansOf(session(), claims.held, { appNumber, owner })).join()).toMatch(/runs_running/);
    }
    expect((await plansOf(session(), deliveries.held, { owner })).join()).toMatch(/deliveries_held/);
  });

  test("the oldest queued runs of an app are found by the index of what may begin", async () => {
    const plans = await plansOf(session(), claims.claim, { appNumber: 1, limit: 5, maxBytes: 1, ...LEASE });
    expect(plans[0]).toBe(
      "SEARCH runs USING INDEX runs_turns (app_number=?); " +
        "SEARCH payloads USING INDEX sqlite_autoindex_payloads_1 (app_number=? AND id=?) LEFT-JOIN; " +
        "SCALAR SUBQUERY 1; SEARCH runs USING INDEX runs_turns (app_number=?)",
    );
    expect(plans.join()).not.toMatch(LONG);
  });

  test("runs that are late are found by the time, and settled by their ids", async () => {
    const passed = await plansOf(session(), limits.passed, { now: 5, limit: 5 });
    expect(passed.join()).toMatch(/^SEARCH l USING PRIMARY KEY \(at<\?\); SEARCH r USING PRIMARY KEY/);
    const seen = [{ appNumber: 1, id: uuidv7(1), at: 1, again: null }];
    const settled = await plansOf(session(), limits.settle, seen);
    expect([...passed, ...settled].join()).not.toMatch(LONG);
    expect(settled.join()).toContain("run_limits_by_run (app_number=? AND id=? AND at<?)");
  });

  verifies("origins.lookup", "an app is found by its host label with an index", async () => {
    const [plan] = await plansOf(session(), apps.findHosted, ["a", "b"]);
    expect(plan).toBe("SEARCH apps USING INDEX apps_by_host_label (host_label=?)");
  });

  test("the part that holds an event is found without the parts before it", async () => {
    const [plan] = await plansOf(session(), transcripts.next, { appNumber: 1, id: uuidv7(1), after: 5 });
    expect(plan).toContain("(app_number=? AND id=? AND first_event>?)");
    expect(plan).toContain("SEARCH t USING COVERING INDEX sqlite_autoindex_transcripts_1");
  });

  test("the last part of a transcript is found without the others", async () => {
    const plans = await plansOf(session(), transcripts.last, { appNumber: 1, id: uuidv7(1) });
    expect(plans).toEqual([
      "SEARCH transcripts USING INDEX sqlite_autoindex_transcripts_1 (app_number=? AND id=?)",
    ]);
  });

  const id = uuidv7(1);
  const cutoff = Date.now() + 1_000_000;
  test.each<[string, () => Promise<string[]>]>([
    ["the backlog", () => plansOf(session(), claims.backlog, undefined)],
    ["recovery", () => plansOf(session(), claims.recover, { owner: "new", isAlone: false })],
    [
      "recovery of one that is alone",
      () => plansOf(session(), claims.recover, { owner: "new", isAlone: true }),
    ],
    ["looking for the next delayed run", () => plansOf(session(), claims.nextDueAt, undefined)],
    ["making delayed runs due", () => plansOf(session(), claims.makeDue, { now: 5, limit: 5 })],
    ["the position of a run", () => plansOf(session(), claims.position, { appNumber: 1, id })],
    ["the attempts of a run", () => plansOf(session(), claims.attempts, { appNumber: 1, id })],
    ["trimming a transcript", () => plansOf(session(), transcripts.trim, { appNumber: 1, id, before: 1 })],
    ["looking for what is due", () => plansOf(session(), deliveries.nextDueAt, undefined)],
    ["claiming what is due", () => plansOf(session(), deliveries.claimDue, { ...LEASE, now: 5, limit: 5 })],
    ["listing deliveries", () => plansOf(session(), deliveries.list, { projectId: "p", limit: 5 })],
    [
      "sending a range again",
      () => plansOf(session(), deliveries.redeliver, { projectId: "p", from: 0, to: 9, now: 5 }),
    ],
    [
      "counting a range to send again",
      () => plansOf(session(), deliveries.countRedeliverable, { projectId: "p", from: 0, to: 9 }),
    ],
    ["expiry", () => plansOf(session(), retention.expire, { appNumber: 1, cutoff, limit: 1 })],
    [
      "removing the oldest contents",
      () => plansOf(session(), retention.removeOldest, { limit: 1, keep: "record" }),
    ],
    [
      "removing the oldest records",
      () => plansOf(session(), retention.removeOldest, { limit: 1, keep: "nothing" }),
    ],
    ["removing old records", () => plansOf(session(), retention.removeRuns, { cutoff, limit: 1 })],
    ["removing keys", () => plansOf(session(), retention.removeKeys, { before: 5, limit: 5 })],
    ["removing deliveries", () => plansOf(session(), retention.removeDeliveries, { before: 5, limit: 5 })],
    ["counting what is stored", () => plansOf(session(), retention.usage, undefined)],
  ])("%s reads no table from end to end", async (_, plan) => {
    const plans = await plan();
    expect(plans.length).toBeGreaterThan(0);
    expect(plans.join("; ")).not.toMatch(LONG);
  });
});
