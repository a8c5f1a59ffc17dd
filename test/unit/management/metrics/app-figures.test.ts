import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { makeRun, NOT_BEGUN } from "../../../../src/model/run.ts";
import { MAX_FUNCTIONS } from "../../../../src/management/metrics/app-figures.ts";
import { APP_METRICS } from "../../../../src/management/metrics/app-metrics.ts";
import { RunTally } from "../../../../src/runs/run-tally.ts";
import { parseExposition } from "../../../support/exposition.ts";
import { figures, idleApps, scraped } from "../../../support/many-apps.ts";
import { verifies } from "../../../verifies.ts";

const DOCUMENT = readFileSync(new URL("../../../../docs/metrics.md", import.meta.url), "utf8");

function call(tally: RunTally, appNumber: number, functionName = "run"): void {
  const target = { appNumber, versionId: "v" };
  const origin = { id: "r", target, functionName, ip: null, caller: null, webhook: null };
  const ended = { isAsync: false, state: "success" as const, createdAt: 0, startedAt: 1, responseMs: 2 };
  tally.add(makeRun(origin, { ...NOT_BEGUN, ...ended }), null);
}

async function samplesOf(apps: ReturnType<typeof figures>["apps"]) {
  return parseExposition((await scraped(apps, "text")).join("")).samples;
}

verifies("metrics.zero", "every series of an app exists from its deploy, at 0", async () => {
  const samples = await samplesOf(figures(idleApps(1, ["run", "setup", "embed"], 1, true)).apps);
  expect(samples.filter(({ value }) => value !== 0)).toEqual([]);
  const names = new Set(samples.map(({ name }) => name.replace(/_(?:bucket|sum|count)$/, "")));
  // `_count` is also the end of a gauge's name.
  const expected = Object.keys(APP_METRICS).map((name) => name.replace(/_count$/, ""));
  expect([...names].toSorted()).toEqual(expected.toSorted());
  const functions = new Set(samples.flatMap(({ labels }) => labels["function"] ?? []));
  expect([...functions]).toEqual(["run", "embed"]);
});

test("while the database does not answer, nothing is said of what it knows", async () => {
  const [app] = figures(idleApps(1)).apps;
  const names = (await samplesOf([{ ...app!, queued: null }])).map(({ name }) => name);
  expect(names).toContain("millrace_runs_waiting");
  expect(names.filter((name) => /async|depth/.test(name))).toEqual([]);
});

verifies("metrics.causes", "failures are told apart by whose they are", async () => {
  const apps = idleApps(1);
  const tally = new RunTally();
  const fail = (errorCode: string | null, statusCode: number): void => {
    const target = { appNumber: apps[0]!.live.app.number, versionId: "v" };
    const origin = { id: "r", target, functionName: "run", ip: null, caller: null, webhook: null };
    const ended = { isAsync: false, state: "failure" as const, createdAt: 0, startedAt: 1, responseMs: 2 };
    tally.add(makeRun(origin, { ...NOT_BEGUN, ...ended, errorCode, statusCode }), null);
  };
  fail("invalid_arguments", 422);
  fail(null, 404);
  fail("app_error", 500);
  fail("queue_full", 503);
  fail("a code of a later release", 500);
  const samples = await samplesOf(figures(apps, tally).apps);
  const failures = samples.filter(({ name }) => name === "millrace_run_failures_total");
  expect(failures.map(({ labels, value }) => [labels["cause"], value])).toEqual([
    ["caller", 2],
    ["app", 3],
  ]);
});

verifies("metrics.bounded", "as many series as docs/metrics.md says", async () => {
  const bound = (what: RegExp): number => Number(what.exec(DOCUMENT)?.[1]?.replace(",", ""));
  const perApp = bound(/An app has (\d+) series/);
  const detailed = bound(/(\d+) more, for the histograms of the hosted original/);
  const perFunction = bound(/each of its functions (\d+)/);
  const batched = bound(/(\d+) more if it is batched/);
  expect(bound(/At most ([\d,]+) functions/)).toBe(MAX_FUNCTIONS);
  const count = async (apps: ReturnType<typeof idleApps>): Promise<number> =>
    (await scraped(figures(apps).apps))
      .join("")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#")).length;
  expect(await count(idleApps(1))).toBe(perApp + detailed + perFunction);
  expect(await count(idleApps(1, ["run", "embed"]))).toBe(perApp + detailed + 2 * perFunction);
  expect(await count(idleApps(1, ["run"], 1, true))).toBe(perApp + detailed + perFunction + batched);
  const many = MAX_FUNCTIONS + 200;
  expect(await count(idleApps(many))).toBe(many * perApp + MAX_FUNCTIONS * (detailed + perFunction));
});

verifies("metrics.bounded", "apps that were called come first, and a series with a value stays", () => {
  const names = Array.from({ length: 300 }, (_, i) => `f${i}`);
  const apps = [...idleApps(MAX_FUNCTIONS + 5), ...idleApps(1, names, 5_000)];
  const tally = new RunTally();
  const shown = () => {
    const { apps: all, leftOut } = figures(apps, tally);
    const detailed = all.filter(({ functions }) => functions.length > 0);
    return { count: detailed.length, first: detailed[0]!, leftOut };
  };
  expect(shown()).toMatchObject({ count: MAX_FUNCTIONS, leftOut: 305 });
  call(tally, MAX_FUNCTIONS + 5);
  expect(shown()).toMatchObject({ count: MAX_FUNCTIONS, first: { states: { success: 1 } } });
  // Of a large app a hundred functions have their own, and the others are one.
  call(tally, 5_000, "f299");
  const large = figures(apps, tally).apps.find(({ functions }) => functions.length > 1)!;
  expect(large.functions.map(({ name }) => name)).toEqual([...names.slice(0, 100), "(other)"]);
  expect(large.functions.at(-1)!.tally.states.success).toBe(1);
  expect(shown()).toMatchObject({ count: MAX_FUNCTIONS - 99, leftOut: 305 });
});

verifies("metrics.scrape", "a scrape comes in small pieces, whatever its size", async () => {
  const pieces = await scraped(figures(idleApps(2_000)).apps);
  const longest = Math.max(...pieces.map(({ length }) => length));
  expect(pieces.length).toBeGreaterThan(100);
  expect(longest).toBeLessThan(128 * 1024);
  expect(pieces.at(-1)).toMatch(/\n# EOF\n$/);
});
