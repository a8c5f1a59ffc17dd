import type { Dashboard } from "./dashboard.ts";
import { APPS, HOSTED, RATE, OF_APPS, rate, quantile, quantiles, failedShare } from "./expressions.ts";

export const APP: Dashboard = {
  uid: "millrace-app",
  title: "Millrace: app",
  help: "One app, by function.",
  variables: OF_APPS,
  rows: {
    Runs: [
      {
        title: "Runs",
        unit: "reqps",
        isStacked: true,
        targets: [[`sum by (function) (${rate("millrace_response_seconds_count", APPS)})`, "{{function}}"]],
      },
      { title: "Failed", unit: "percentunit", targets: [[failedShare(APPS), "failed"]] },
      {
        title: "Errors by code",
        unit: "reqps",
        targets: [
          [
            `sum by (function, code) (${rate("millrace_run_errors_total", APPS)}) > 0 or topk(1, sum by (function, code) (${rate("millrace_run_errors_total", APPS)}))`,
            "{{function}} {{code}}",
          ],
        ],
      },
      {
        title: "Calls in flight",
        unit: "short",
        isStacked: true,
        targets: [[`sum by (function) (millrace_calls_in_flight{${APPS}})`, "{{function}}"]],
      },
    ],
    Times: [
      { title: "Response time", unit: "s", targets: quantiles("millrace_response_seconds", APPS) },
      {
        title: "Response time, p95 by function",
        unit: "s",
        targets: [[quantile(0.95, "millrace_response_seconds", APPS, ", function"), "{{function}}"]],
      },
      { title: "Inside the function", unit: "s", targets: quantiles("millrace_execution_seconds", APPS) },
      { title: "In the queue", unit: "s", targets: quantiles("millrace_queue_seconds", APPS) },
      {
        title: "Waiting for a replica to start",
        unit: "s",
        help: "Only runs that had to wait for one.",
        targets: quantiles("millrace_cold_start_seconds", APPS),
      },
      {
        title: "Share of runs that waited for a start",
        unit: "percentunit",
        targets: [
          [
            `sum(${rate("millrace_cold_start_seconds_count", APPS)}) / clamp_min(sum(${rate("millrace_response_seconds_count", APPS)}), 1e-9)`,
            "cold",
          ],
        ],
      },
    ],
    Replicas: [
      {
        title: "Replicas",
        unit: "short",
        isStacked: true,
        targets: [[`sum by (state) (millrace_replicas{${APPS}})`, "{{state}}"]],
      },
      {
        title: "Starts and unexpected ends",
        unit: "short",
        targets: [
          [`sum(increase(millrace_replica_starts_total{${APPS}}[${RATE}]))`, "starts"],
          [`sum(increase(millrace_cold_starts_total{${APPS}}[${RATE}]))`, "cold starts"],
          [`sum(increase(millrace_replica_deaths_total{${APPS}}[${RATE}]))`, "ended unexpectedly"],
        ],
      },
      {
        title: "Running and waiting",
        unit: "short",
        targets: [
          [`sum(millrace_runs_running{${APPS}})`, "running"],
          [`sum(millrace_runs_waiting{${APPS}})`, "waiting"],
          [`max(millrace_queue_oldest_seconds{${APPS}})`, "seconds that the first caller has waited"],
        ],
      },
      {
        title: "Processors in use",
        unit: "short",
        targets: [[`sum by (app_id) (cerebrium_cpu_utilization_cores{${HOSTED}})`, "{{app_id}}"]],
      },
      {
        title: "Memory in use",
        unit: "bytes",
        targets: [[`sum by (app_id) (cerebrium_memory_usage_bytes{${HOSTED}})`, "{{app_id}}"]],
      },
      {
        title: "GPU memory in use",
        unit: "bytes",
        targets: [[`sum by (app_id) (cerebrium_gpu_memory_usage_bytes{${HOSTED}})`, "{{app_id}}"]],
      },
      {
        title: "GPU utilization",
        unit: "percent",
        targets: [[`max by (app_id) (cerebrium_gpu_compute_utilization_percent{${HOSTED}})`, "{{app_id}}"]],
      },
    ],
    Batches: [
      {
        title: "Calls in a batch",
        unit: "short",
        targets: [
          [
            `sum by (function) (${rate("millrace_batch_size_sum", APPS)}) / clamp_min(sum by (function) (${rate("millrace_batch_size_count", APPS)}), 1e-9)`,
            "{{function}}",
          ],
        ],
      },
      {
        title: "Why batches left",
        unit: "reqps",
        isStacked: true,
        targets: [
          [`sum by (function, reason) (${rate("millrace_batches_total", APPS)})`, "{{function}} {{reason}}"],
        ],
      },
    ],
  },
};
