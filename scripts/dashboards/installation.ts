import type { Dashboard } from "./dashboard.ts";
import { NODES, RATE, OF_NODES, rate, quantile, quantiles, failedShare } from "./expressions.ts";

export const INSTALLATION: Dashboard = {
  uid: "millrace-installation",
  title: "Millrace: installation",
  help: "All apps, and the services that run them.",
  variables: [["instance", OF_NODES[0][1]]],
  rows: {
    Now: [
      {
        title: "Runs per second",
        unit: "reqps",
        kind: "stat",
        width: 4,
        targets: [[`sum(${rate("millrace_runs_total", NODES)})`, ""]],
      },
      {
        title: "Failed",
        unit: "percentunit",
        kind: "stat",
        width: 4,
        alarm: 0.05,
        targets: [[failedShare(NODES), ""]],
      },
      {
        title: "Running",
        unit: "short",
        kind: "stat",
        width: 4,
        targets: [[`sum(millrace_runs_running{${NODES}})`, ""]],
      },
      {
        title: "Waiting",
        unit: "short",
        kind: "stat",
        width: 4,
        targets: [[`sum(millrace_runs_waiting{${NODES}}) + sum(millrace_async_queued{${NODES}})`, ""]],
      },
      {
        title: "Replicas ready",
        unit: "short",
        kind: "stat",
        width: 4,
        targets: [[`sum(millrace_replicas{${NODES},state="ready"})`, ""]],
      },
      {
        title: "Records lost",
        unit: "short",
        kind: "stat",
        width: 4,
        alarm: 1,
        help: "Records of ended runs that will never be stored. Must stay 0.",
        targets: [[`sum(millrace_runs_lost_total{${NODES}})`, ""]],
      },
    ],
    Runs: [
      {
        title: "Runs by final state",
        unit: "reqps",
        isStacked: true,
        targets: [[`sum by (state) (${rate("millrace_runs_total", NODES)})`, "{{state}}"]],
      },
      { title: "Response time", unit: "s", targets: quantiles("millrace_response_seconds", NODES) },
      {
        title: "Errors by code",
        unit: "reqps",
        targets: [[`topk(10, sum by (code) (${rate("millrace_run_errors_total", NODES)}))`, "{{code}}"]],
      },
      {
        title: "Busiest apps",
        unit: "reqps",
        targets: [
          [`topk(10, sum by (project, app) (${rate("millrace_runs_total", NODES)}))`, "{{project}} {{app}}"],
        ],
      },
      {
        title: "Running and waiting",
        unit: "short",
        targets: [
          [`sum(millrace_runs_running{${NODES}})`, "running"],
          [`sum(millrace_runs_waiting{${NODES}})`, "waiting in memory"],
          [`sum(millrace_async_queued{${NODES}})`, "waiting in the database"],
        ],
      },
      {
        title: "Builds that ended",
        unit: "short",
        targets: [[`sum by (status) (increase(millrace_builds_total{${NODES}}[${RATE}]))`, "{{status}}"]],
      },
    ],
    Replicas: [
      {
        title: "Replicas",
        unit: "short",
        isStacked: true,
        targets: [[`sum by (state) (millrace_replicas{${NODES}})`, "{{state}}"]],
      },
      {
        title: "Cold starts and unexpected ends",
        unit: "short",
        targets: [
          [`sum(increase(millrace_cold_starts_total{${NODES}}[${RATE}]))`, "cold starts"],
          [`sum(increase(millrace_replica_deaths_total{${NODES}}[${RATE}]))`, "ended unexpectedly"],
        ],
      },
      {
        title: "What replicas use: processors",
        unit: "short",
        isStacked: true,
        targets: [[`topk(10, sum by (app_id) (cerebrium_cpu_utilization_cores{${NODES}}))`, "{{app_id}}"]],
      },
      {
        title: "What replicas use: memory",
        unit: "bytes",
        isStacked: true,
        targets: [[`topk(10, sum by (app_id) (cerebrium_memory_usage_bytes{${NODES}}))`, "{{app_id}}"]],
      },
    ],
    Services: [
      { title: "Versions", unit: "short", kind: "table", targets: [[`millrace_build_info{${NODES}}`, ""]] },
      {
        title: "Processor",
        unit: "short",
        alarm: 1,
        targets: [[rate("process_cpu_seconds_total", NODES), "{{instance}}"]],
      },
      {
        title: "Memory",
        unit: "bytes",
        targets: [[`process_resident_memory_bytes{${NODES}}`, "{{instance}}"]],
      },
      { title: "Open files", unit: "short", targets: [[`process_open_fds{${NODES}}`, "{{instance}}"]] },
      {
        title: "Event loop lag",
        unit: "s",
        targets: [[`millrace_event_loop_lag_seconds{${NODES}}`, "{{instance}} {{quantile}}"]],
      },
      {
        title: "Up for",
        unit: "s",
        targets: [[`time() - process_start_time_seconds{${NODES}}`, "{{instance}}"]],
      },
    ],
    Storage: [
      {
        title: "Time of a write",
        unit: "s",
        targets: [
          [quantile(0.5, "millrace_commit_seconds", NODES), "p50"],
          [quantile(0.99, "millrace_commit_seconds", NODES), "p99"],
        ],
      },
      {
        title: "Records that wait to be stored",
        unit: "short",
        targets: [
          [`millrace_records_waiting{${NODES}}`, "{{instance}}"],
          [`sum by (instance) (millrace_storage_silent{${NODES}})`, "{{instance}} silent"],
        ],
      },
      {
        title: "Free disk",
        unit: "bytes",
        targets: [[`millrace_disk_free_bytes{${NODES}}`, "{{instance}}"]],
      },
      {
        title: "Free disk, of all",
        unit: "percentunit",
        targets: [[`millrace_disk_free_bytes{${NODES}} / millrace_disk_bytes{${NODES}}`, "{{instance}}"]],
      },
      {
        title: "Functions without series of their own",
        unit: "short",
        targets: [[`millrace_functions_left_out{${NODES}}`, "{{instance}}"]],
      },
    ],
  },
};
