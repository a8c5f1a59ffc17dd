import { BATCH_REASONS } from "../../model/run.ts";
import { BATCH_SIZE_BOUNDS, type FunctionBatches } from "../../replicas/batch-tally.ts";
import type { FunctionTally } from "../../runs/run-tally.ts";
import { QUEUE_PRIORITIES } from "../../store/runs/run-figures.ts";
import { type AppFigures, FAILURE_CAUSES } from "./app-figures.ts";
import { AS_IT_IS, IN_SECONDS, labelText, type Sink } from "./page.ts";
import type { MetricName } from "./table.ts";

/** What one app has of a metric. `now` is in epoch milliseconds. */
type Write = (page: Sink, app: AppFigures, now: number) => void;

type Span = "response" | "queue" | "coldStart" | "execution";

/** The codes that runs may end with. Each has a series before its first run has, so that a first failure is an increase. */
const CODES = {
  function: [
    "app_crashed",
    "app_error",
    "app_not_ready",
    "expired",
    "interrupted",
    "invalid_arguments",
    "no_gpu_free",
    "out_of_gpu_memory",
    "out_of_memory",
    "queue_full",
    "queue_timeout",
    "result_not_json",
    "result_too_large",
    "timed_out",
  ],
  server: [
    "app_crashed",
    "app_not_ready",
    "bad_app_response",
    "expired",
    "http_4xx",
    "http_5xx",
    "interrupted",
    "no_gpu_free",
    "out_of_gpu_memory",
    "out_of_memory",
    "queue_full",
    "queue_timeout",
    "result_too_large",
    "timed_out",
  ],
} as const;

const STATES = ["success", "failure", "cancelled"] as const;
const REPLICA_STATES = ["starting", "ready", "draining"] as const;
const NO_BATCHES: Pick<FunctionBatches, "sizes" | "batches" | "calls"> & Partial<FunctionBatches> = {
  sizes: BATCH_SIZE_BOUNDS.map(() => 0),
  batches: 0,
  calls: 0,
};

const own =
  (value: (app: AppFigures) => number): Write =>
  (page, app) =>
    page.sample(app.own, value(app));

const hosted =
  (value: (app: AppFigures) => number): Write =>
  (page, app) =>
    page.sample(app.hosted, value(app));

const ofFunctions =
  (span: Span): Write =>
  (page, { functions }) => {
    for (const { labels, tally } of functions) page.histogram(labels, tally[span], IN_SECONDS);
  };

const ofHosted =
  (span: Span): Write =>
  (page, { hosted: labels, total }) => {
    if (total) page.histogram(labels, total[span], AS_IT_IS);
  };

/** The metrics of apps, each with what an app has of it. */
export const APP_METRICS: Partial<Record<MetricName, Write>> = {
  millrace_runs_total: (page, { own: of, states }) => {
    for (const state of STATES) page.sample(`${of},state="${state}"`, states[state]);
  },
  millrace_run_failures_total: (page, { own: of, failures }) => {
    for (const cause of FAILURE_CAUSES) page.sample(`${of},cause="${cause}"`, failures[cause]);
  },
  millrace_run_errors_total: (page, { functions, isServer }) => {
    for (const { labels, tally } of functions)
      for (const code of codesOf(tally, isServer))
        page.sample(`${labels},code="${code}"`, tally.codes.get(code) ?? 0);
  },
  millrace_response_seconds: ofFunctions("response"),
  millrace_queue_seconds: ofFunctions("queue"),
  millrace_cold_start_seconds: ofFunctions("coldStart"),
  millrace_execution_seconds: ofFunctions("execution"),
  millrace_calls_in_flight: (page, { functions }) => {
    for (const { labels, inFlight } of functions) page.sample(labels, inFlight);
  },
  millrace_runs_running: own(({ running }) => running),
  millrace_runs_waiting: own(({ waiting }) => waiting),
  millrace_queue_oldest_seconds: own(({ oldestWaitMs }) => oldestWaitMs / 1000),
  millrace_async_queued: (page, { own: of, queued }) => {
    if (queued) page.sample(of, queued.count);
  },
  millrace_async_oldest_seconds: (page, { own: of, queued }, now) => {
    if (queued) page.sample(of, Math.max(0, now - (queued.oldestAt ?? now)) / 1000);
  },
  millrace_queue_depth: (page, { own: of, queued }) => {
    if (!queued) return;
    for (const priority of QUEUE_PRIORITIES) page.sample(`${of},priority="${priority}"`, queued[priority]);
  },
  millrace_replicas: (page, { own: of, replicas }) => {
    for (const state of REPLICA_STATES) page.sample(`${of},state="${state}"`, replicas[state]);
  },
  millrace_replica_starts_total: own(({ counts }) => counts.starts),
  millrace_cold_starts_total: own(({ counts }) => counts.coldStarts),
  millrace_replica_deaths_total: own(({ counts }) => counts.deaths),
  millrace_batches_total: (page, app) => {
    for (const [labels, { byReason }] of batchesOf(app))
      for (const reason of BATCH_REASONS)
        page.sample(`${labels},reason="${reason}"`, byReason?.[reason] ?? 0);
  },
  millrace_batch_size: (page, app) => {
    for (const [labels, { sizes: counts, batches: count, calls: sumMs }] of batchesOf(app))
      page.histogram(labels, { boundsMs: BATCH_SIZE_BOUNDS, counts, count, sumMs }, AS_IT_IS);
  },
  cerebrium_run_execution_time_ms: ofHosted("execution"),
  cerebrium_run_queue_time_ms: ofHosted("queue"),
  cerebrium_run_coldstart_time_ms: ofHosted("coldStart"),
  cerebrium_run_response_time_ms: ofHosted("response"),
  cerebrium_run_total: hosted(({ states }) => states.success + states.failure + states.cancelled),
  cerebrium_run_successes_total: hosted(({ states }) => states.success),
  cerebrium_run_errors_total: hosted(({ states }) => states.failure),
  cerebrium_containers_running_count: hosted(
    ({ replicas: { starting, ready, draining } }) => starting + ready + draining,
  ),
  cerebrium_containers_ready_count: hosted(({ replicas }) => replicas.ready),
  cerebrium_cpu_utilization_cores: hosted(({ usage }) => usage.cores),
  cerebrium_memory_usage_bytes: hosted(({ usage }) => usage.bytes),
  cerebrium_gpu_memory_usage_bytes: hosted(({ gpus }) => gpus?.usedBytes ?? 0),
  cerebrium_gpu_compute_utilization_percent: hosted(({ gpus }) => gpus?.percent ?? 0),
};

/** A closed list, and any other code of the catalogue that a run has ended with. */
function codesOf({ codes }: FunctionTally, isServer: boolean): readonly string[] {
  const usual: readonly string[] = CODES[isServer ? "server" : "function"];
  if (codes.size === 0) return usual;
  return [...usual, ...[...codes.keys()].filter((code) => !usual.includes(code))];
}

/** The batches of the functions that the current version batches: others may have been batched by versions before. */
function batchesOf({ own: of, batched, counts }: AppFigures) {
  return batched.map((name) => {
    const batches = counts.batches.byFunction.get(name) ?? NO_BATCHES;
    return [`${of},${labelText({ function: name })}`, batches] as const;
  });
}
