/** One thing that is measured. */
export type Metric = {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
};

const OF_APP = ["project", "app"] as const;

/** Everything `/metrics` shows, by name. `docs/metrics.md` lists the same. */
export const METRICS = {
  millrace_build_info: {
    kind: "gauge",
    labels: ["version", "node", "python", "store"],
    help: "Always 1; the labels say what is running.",
  },
  millrace_runs_total: {
    kind: "counter",
    labels: [...OF_APP, "state"],
    help: "Runs that ended, by final state.",
  },
  millrace_runs_running: {
    kind: "gauge",
    labels: OF_APP,
    help: "Runs that replicas are executing.",
  },
  millrace_runs_waiting: {
    kind: "gauge",
    labels: OF_APP,
    help: "Runs in memory that wait for a replica: calls, and async runs that were claimed.",
  },
  millrace_queue_oldest_seconds: {
    kind: "gauge",
    labels: OF_APP,
    help: "How long the first waiting caller has waited; 0 when nobody waits.",
  },
  millrace_async_queued: {
    kind: "gauge",
    labels: OF_APP,
    help: "Accepted async runs that wait in the database; counted up to 100,000.",
  },
  millrace_async_oldest_seconds: {
    kind: "gauge",
    labels: OF_APP,
    help: "How long the oldest of those has waited; 0 when none waits.",
  },
  millrace_replicas: {
    kind: "gauge",
    labels: [...OF_APP, "state"],
    help: "Replicas: starting, ready or draining.",
  },
  millrace_replica_starts_total: {
    kind: "counter",
    labels: OF_APP,
    help: "Replicas started.",
  },
  millrace_cold_starts_total: {
    kind: "counter",
    labels: OF_APP,
    help: "Times an app went from no ready replica to one.",
  },
  millrace_replica_deaths_total: {
    kind: "counter",
    labels: OF_APP,
    help: "Replicas that ended unexpectedly.",
  },
  millrace_seat_start_seconds: {
    kind: "histogram",
    labels: ["phase"],
    help: "With an engine elsewhere: time from asking for a seat until it was scheduled, pulled, connected, fetched, started and imported.",
  },
  millrace_builds_total: {
    kind: "counter",
    labels: ["status"],
    help: "Builds that ended, by final status.",
  },
  millrace_webhook_attempts_total: {
    kind: "counter",
    labels: ["result"],
    help: "Webhook attempts: delivered, retry if another one follows, failed if it was the last.",
  },
  millrace_webhooks_pending: {
    kind: "gauge",
    labels: [],
    help: "Deliveries that have not ended.",
  },
  millrace_webhook_oldest_seconds: {
    kind: "gauge",
    labels: [],
    help: "Age of the oldest of those; 0 when there is none.",
  },
  millrace_commit_seconds: {
    kind: "histogram",
    labels: [],
    help: "Time a database write takes, from request to durable.",
  },
  millrace_storage_silent: {
    kind: "gauge",
    labels: ["lane"],
    help: "Is 1 while the database does not answer reads, or writes, and requests that need it are refused. Should be 0.",
  },
  millrace_records_waiting: {
    kind: "gauge",
    labels: [],
    help: "Records of ended runs that are not stored yet.",
  },
  millrace_runs_lost_total: {
    kind: "counter",
    labels: [],
    help: "Records of ended runs that will never be stored. Must stay 0.",
  },
  millrace_event_loop_lag_seconds: {
    kind: "gauge",
    labels: ["quantile"],
    help: "How late the event loop ran since the last scrape.",
  },
  process_cpu_seconds_total: {
    kind: "counter",
    labels: [],
    help: "CPU time of the service, without its replicas.",
  },
  process_resident_memory_bytes: {
    kind: "gauge",
    labels: [],
    help: "Memory of the service, without its replicas.",
  },
  process_open_fds: {
    kind: "gauge",
    labels: [],
    help: "Open file descriptors of the service.",
  },
  process_start_time_seconds: {
    kind: "gauge",
    labels: [],
    help: "When the service started, in seconds since 1970.",
  },
} as const satisfies Record<string, Metric>;

/** A name of the table. */
export type MetricName = keyof typeof METRICS;
