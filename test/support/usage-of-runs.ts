import { expect } from "vitest";
import type { Run } from "../../src/model/run.ts";
import type { Calls } from "../../src/store/operations.ts";
import { dayOf } from "../../src/store/usage/roll-up.ts";

type AppOfUsage = { readonly projectId: string; readonly appNumber: number; readonly appName: string };

/** More than the tests of one app make. */
const MOST_RUNS = 100_000;

/** Expects that an app's usage is the sum of its records, by day and account. */
export async function expectUsageOfRuns(
  store: Pick<Calls, "runs" | "claims" | "dailyUsage">,
  { projectId, appNumber, appName }: AppOfUsage,
): Promise<void> {
  const rows = await store.dailyUsage.ofCalls({
    projectId,
    fromDay: 0,
    toDay: 100_000,
    groups: ["day", "token"],
    apps: [appName],
    accountId: null,
    tag: null,
    limit: MOST_RUNS,
  });
  const usage = new Map(
    rows.map(({ day, accountId, runMs, gpuMs, app: _app, tag: _tag, ...sums }) => [
      `${day} ${accountId}`,
      { ...sums, runUs: Math.round(runMs * 1000), gpuUs: Math.round(gpuMs * 1000) },
    ]),
  );
  expect(Object.fromEntries(usage)).toEqual(Object.fromEntries(await sumsOf(store, appNumber)));
}

async function sumsOf(store: Pick<Calls, "runs" | "claims">, appNumber: number) {
  const runs = await store.runs.list({ appNumber, limit: MOST_RUNS });
  const sums = new Map<string, Record<string, number>>();
  const add = (at: number, run: Run, values: Readonly<Record<string, number>>): void => {
    const key = `${dayOf(at)} ${run.accountId ?? ""}`;
    const sum = sums.get(key) ?? { ...NOTHING };
    for (const [name, value] of Object.entries(values)) sum[name] = (sum[name] ?? 0) + value;
    sums.set(key, sum);
  };
  for (const run of runs) {
    const attempts = run.attempt > 1 ? await store.claims.attempts(run) : [];
    for (const { endedAt, runMs, gpuMs } of attempts)
      add(endedAt, run, { retried: 1, runUs: microseconds(runMs), gpuUs: microseconds(gpuMs) });
    if (run.state === "queued" || run.state === "running") continue;
    add(run.completedAt ?? run.updatedAt, run, {
      succeeded: Number(run.state === "success"),
      failed: Number(run.state === "failure"),
      cancelled: Number(run.state === "cancelled"),
      runUs: microseconds(run.runMs),
      gpuUs: microseconds(run.gpuMs),
      requestBytes: run.requestBytes ?? 0,
      responseBytes: run.responseBytes ?? 0,
      inputTokens: run.inputTokens ?? 0,
      outputTokens: run.outputTokens ?? 0,
    });
  }
  return sums;
}

const NOTHING: Readonly<Record<string, number>> = {
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  retried: 0,
  runUs: 0,
  gpuUs: 0,
  requestBytes: 0,
  responseBytes: 0,
  inputTokens: 0,
  outputTokens: 0,
};

function microseconds(ms: number | null): number {
  return Math.floor((ms ?? 0) * 1000 + 0.5);
}
