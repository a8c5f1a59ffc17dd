import { beforeAll, expect, test } from "vitest";
import { termsOf } from "../../../../src/model/terms.ts";
import { claims } from "../../../../src/store/runs/claims.ts";
import { keyLines } from "../../../../src/store/runs/key-limits.ts";
import { runs } from "../../../../src/store/runs/runs.ts";
import { plansOf } from "../../../support/query-plan.ts";
import { idAt, queuedRun, samplePayload } from "../../../support/sample-run.ts";
import { sqliteSession } from "../../../support/sqlite-session.ts";

const session = sqliteSession();
const NOW = Date.UTC(2026, 0, 2);
const WISHES = { priority: 0, delay: null, ttlMs: null, timeoutMs: null, maxAttempts: null, tags: [] };
const RATE = { count: 1_000, periodSeconds: 1 };
const QUEUE = {
  concurrencyLimit: 1_000,
  concurrencyKeyLimit: 2,
  rateLimit: RATE,
  concurrencyKeyRateLimit: RATE,
  maxBacklog: null,
};

const queued = (fairnessKey: string, concurrencyKey: string | null) =>
  queuedRun({
    appNumber: 1,
    id: idAt(NOW),
    terms: termsOf({ ...WISHES, fairnessKey, concurrencyKey }, NOW),
  });
const last = queued("c", null);

beforeAll(async () => {
  const all = ["a", "b", "c"].flatMap((line) => [1, 2, 3, 4].map((n) => queued(line, n < 4 ? "x" : "y")));
  const accepted = [...all, last].map((run) => ({ run, payload: samplePayload(), owner: null }));
  const parked = all.map((run) => ({
    run: { ...run, id: idAt(NOW) },
    payload: samplePayload(),
    owner: null,
    isParked: true,
  }));
  await runs.accept.run(session(), runs.accept.pack([...accepted, ...parked]));
});

const claim = { appNumber: 1, owner: "one", maxBytes: 1_000_000, queue: QUEUE, now: NOW };
const turn = { line: "b", used: 1, isAlone: false };
const LOOK = { appNumber: 1, now: NOW, after: "", limit: 5 };
const KEY = { appNumber: 1, key: "x", queue: QUEUE, now: NOW };

test.each<[string, () => Promise<string[]>]>([
  ["a position among several lines", () => plansOf(session(), claims.position, { ...last, turn })],
  ["a claim from several lines", () => plansOf(session(), claims.claim, { ...claim, limit: 4 })],
  [
    "a claim in turn",
    () => plansOf(session(), claims.claim, { ...claim, limit: 8, turn, weights: { b: 2 } }),
  ],
  ["admitting a key", () => plansOf(session(), keyLines.admit, [KEY, { ...KEY, key: "z" }])],
  [
    "admitting a key within its limits",
    () => plansOf(session(), keyLines.admit, [{ ...KEY, queue: { ...QUEUE, concurrencyKeyLimit: 100 } }]),
  ],
  ["looking for apps with keys", () => plansOf(session(), keyLines.apps, undefined)],
  ["looking for keys", () => plansOf(session(), keyLines.stuck, { ...LOOK, queue: QUEUE })],
  [
    "looking for keys without limits",
    () => plansOf(session(), keyLines.stuck, { ...LOOK, queue: undefined }),
  ],
  ["counting what waits", () => plansOf(session(), keyLines.waiting, { appNumber: 1, most: 5 })],
  ["removing old starts", () => plansOf(session(), keyLines.removeStarts, { now: NOW, limit: 5 })],
])("%s reads nothing from end to end, and sorts no line", async (_, plan) => {
  const plans = await plan();
  // Neither a line nor the parked runs of a key are sorted: they may be millions.
  expect(plans.join("\n")).not.toMatch(/runs_(turns|keyed|delayed)[^;]*; USE TEMP B-TREE/);
  const steps = plans.flatMap((of) => of.split("; "));
  expect(steps.length).toBeGreaterThan(0);
  const scans = steps.filter((step) =>
    /^SCAN (?!found|lines|picks|own|ahead|a$|b$|counted|states|\(?subquery|.*CONSTANT|.*VALUES)/i.test(step),
  );
  expect(scans).toEqual([]);
  // Each search of runs goes by the app, and by an index of what waits or by the ids themselves.
  for (const step of steps.filter((one) => one.startsWith("SEARCH runs ")))
    expect(step).toMatch(
      /runs_turns|runs_keyed|runs_running|runs_delayed \(due_at=\? AND app_number=\?\)|PRIMARY KEY \(app_number=\? AND id=\?\)/,
    );
});
