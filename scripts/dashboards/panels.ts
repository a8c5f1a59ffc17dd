import type { Dashboard } from "./dashboard.ts";

const APPS = 'project=~"$project",app=~"$app"';
const HOSTED = 'project_id=~"$project",app_name=~"$app"';
const NODES = 'instance=~"$instance"';
const GPUS = 'instance=~"$instance",uuid=~"$uuid"';
const RATE = "$__rate_interval";

const OF_APPS = [
  ["project", "millrace_runs_total, project"],
  ["app", 'millrace_runs_total{project=~"$project"}, app'],
] as const;
const OF_NODES = [["instance", "millrace_build_info, instance"]] as const;

const rate = (metric: string, labels: string): string => `rate(${metric}{${labels}}[${RATE}])`;

const quantile = (share: number, metric: string, labels: string, by = ""): string =>
  `histogram_quantile(${share}, sum by (le${by}) (${rate(`${metric}_bucket`, labels)}))`;

const quantiles = (metric: string, labels: string) =>
  ([0.5, 0.95, 0.99] as const).map((share) => [quantile(share, metric, labels), `p${share * 100}`] as const);

const failedShare = (labels: string): string =>
  `sum(${rate("millrace_runs_total", `${labels},state="failure"`)}) / clamp_min(sum(${rate("millrace_runs_total", `${labels},state=~"success|failure"`)}), 1e-9)`;

const INSTALLATION: Dashboard = {
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

const APP: Dashboard = {
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

const QUEUES: Dashboard = {
  uid: "millrace-queues",
  title: "Millrace: queues",
  help: "Async runs that wait, and webhooks.",
  variables: OF_APPS,
  rows: {
    "Async runs": [
      {
        title: "Waiting, by priority",
        unit: "short",
        isStacked: true,
        targets: [[`sum by (priority) (millrace_queue_depth{${APPS}})`, "{{priority}}"]],
      },
      {
        title: "Waiting, by app",
        unit: "short",
        targets: [
          [`topk(10, sum by (project, app) (millrace_async_queued{${APPS}}))`, "{{project}} {{app}}"],
        ],
      },
      {
        title: "The oldest has waited",
        unit: "s",
        targets: [
          [`topk(10, max by (project, app) (millrace_async_oldest_seconds{${APPS}}))`, "{{project}} {{app}}"],
        ],
      },
      {
        title: "The queue grows",
        unit: "short",
        help: "Runs a second; below 0 it shrinks.",
        targets: [[`sum(deriv(millrace_async_queued{${APPS}}[${RATE}]))`, "runs a second"]],
      },
      { title: "Time in the queue", unit: "s", targets: quantiles("millrace_queue_seconds", APPS) },
      {
        title: "Runs that ended",
        unit: "reqps",
        isStacked: true,
        targets: [[`sum by (state) (${rate("millrace_runs_total", APPS)})`, "{{state}}"]],
      },
      {
        title: "Taken too late",
        unit: "reqps",
        help: "Runs that were refused or ended because they waited for too long, or too many did.",
        targets: [
          [
            `sum by (code) (${rate("millrace_run_errors_total", `${APPS},code=~"expired|queue_full|queue_timeout|no_gpu_free"`)})`,
            "{{code}}",
          ],
        ],
      },
    ],
    Webhooks: [
      {
        title: "Attempts",
        unit: "reqps",
        isStacked: true,
        targets: [[`sum by (result) (rate(millrace_webhook_attempts_total[${RATE}]))`, "{{result}}"]],
      },
      {
        title: "Deliveries that have not ended",
        unit: "short",
        targets: [["max(millrace_webhooks_pending)", "pending"]],
      },
      {
        title: "The oldest of them",
        unit: "s",
        targets: [["max(millrace_webhook_oldest_seconds)", "oldest"]],
      },
    ],
  },
};

const GPU: Dashboard = {
  uid: "millrace-gpus",
  title: "Millrace: GPUs",
  help: "The GPUs of all nodes, and the replicas that hold them.",
  variables: [...OF_NODES, ["uuid", 'millrace_gpu_up{instance=~"$instance"}, uuid']],
  rows: {
    Health: [
      {
        title: "GPUs that work",
        unit: "short",
        kind: "stat",
        width: 6,
        targets: [[`sum(millrace_gpu_up{${GPUS}})`, ""]],
      },
      {
        title: "Out of service",
        unit: "short",
        kind: "stat",
        width: 6,
        alarm: 1,
        targets: [[`count(millrace_gpu_up{${GPUS}}) - sum(millrace_gpu_up{${GPUS}})`, ""]],
      },
      {
        title: "Memory granted",
        unit: "percentunit",
        kind: "stat",
        width: 6,
        targets: [
          [`sum(millrace_gpu_memory_granted_bytes{${GPUS}}) / sum(millrace_gpu_memory_bytes{${GPUS}})`, ""],
        ],
      },
      {
        title: "Hottest",
        unit: "celsius",
        kind: "stat",
        width: 6,
        alarm: 88,
        targets: [[`max(millrace_gpu_temperature_celsius{${GPUS}})`, ""]],
      },
    ],
    "Each GPU": [
      {
        title: "Utilization",
        unit: "percentunit",
        targets: [[`millrace_gpu_utilization_ratio{${GPUS}}`, "{{instance}} {{index}} {{model}}"]],
      },
      {
        title: "Memory in use",
        unit: "bytes",
        targets: [[`millrace_gpu_memory_used_bytes{${GPUS}}`, "{{instance}} {{index}} {{model}}"]],
      },
      {
        title: "Power",
        unit: "watt",
        targets: [[`millrace_gpu_power_watts{${GPUS}}`, "{{instance}} {{index}} {{model}}"]],
      },
      {
        title: "Temperature",
        unit: "celsius",
        targets: [[`millrace_gpu_temperature_celsius{${GPUS}}`, "{{instance}} {{index}} {{model}}"]],
      },
    ],
    Replicas: [
      {
        title: "Granted",
        unit: "bytes",
        isStacked: true,
        targets: [
          [
            `sum by (project, app, index) (millrace_gpu_replica_granted_bytes{${GPUS}})`,
            "{{project}} {{app}} on {{index}}",
          ],
        ],
      },
      {
        title: "In use",
        unit: "bytes",
        isStacked: true,
        targets: [
          [
            `sum by (project, app, index) (millrace_gpu_replica_used_bytes{${GPUS}})`,
            "{{project}} {{app}} on {{index}}",
          ],
        ],
      },
    ],
  },
};

/** By the names of their files. */
export const DASHBOARDS: Readonly<Record<string, Dashboard>> = {
  "installation.json": INSTALLATION,
  "app.json": APP,
  "queues.json": QUEUES,
  "gpus.json": GPU,
};
