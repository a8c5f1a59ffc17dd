export type Metric = {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
};

const metric =
  <Kind extends Metric["kind"]>(kind: Kind) =>
  <const Labels extends readonly string[]>(labels: Labels, help: string) => ({ kind, labels, help });
const [counter, gauge, histogram] = [metric("counter"), metric("gauge"), metric("histogram")];

const OF_APP = ["project", "app"] as const;
const OF_FUNCTION = [...OF_APP, "function"] as const;
const HOSTED = ["project_id", "app_id", "app_name", "region"] as const;
const OF_GPU = ["uuid", "index", "model"] as const;
const OF_REPLICA = [...OF_APP, "replica", "uuid", "index"] as const;

/** Everything `/metrics` shows, by name. `docs/metrics.md` lists the same. */
export const METRICS = {
  millrace_build_info: gauge(
    ["version", "node", "python", "store"],
    "Always 1; the labels say what is running.",
  ),
  millrace_runs_total: counter([...OF_APP, "state"], "Runs that ended, by final state."),
  millrace_run_failures_total: counter(
    [...OF_APP, "cause"],
    "Runs that failed, by whose failure it was: of the `caller` (an error of 400 to 499), or of the `app` or the service.",
  ),
  millrace_run_errors_total: counter(
    [...OF_FUNCTION, "code"],
    "Runs that failed, by the code of their error; `http_4xx` and `http_5xx` are answers of a server app.",
  ),
  millrace_response_seconds: histogram(
    OF_FUNCTION,
    "Time from the acceptance of a run until its end, without a delay that its caller asked for.",
  ),
  millrace_queue_seconds: histogram(
    OF_FUNCTION,
    "Time that a run waited for a free slot, or for its turn in the queue; one that was tried again, until its last attempt.",
  ),
  millrace_cold_start_seconds: histogram(
    OF_FUNCTION,
    "Time that a run waited for a replica to start; only runs that had to wait for one.",
  ),
  millrace_execution_seconds: histogram(OF_FUNCTION, "Time inside the function; only runs that began."),
  millrace_calls_in_flight: gauge(OF_FUNCTION, "Calls of the function that replicas are executing."),
  millrace_functions_left_out: gauge(
    [],
    "Functions that have no series of their own, because the bound is reached.",
  ),
  millrace_runs_running: gauge(OF_APP, "Runs that replicas are executing."),
  millrace_runs_waiting: gauge(
    OF_APP,
    "Runs in memory that wait for a replica: calls, and async runs that were claimed.",
  ),
  millrace_queue_oldest_seconds: gauge(
    OF_APP,
    "How long the first waiting caller has waited; 0 if no caller waits.",
  ),
  millrace_async_queued: gauge(
    OF_APP,
    "Accepted async runs that wait in the database, without those that wait for the time of their next attempt; counted up to 100,000.",
  ),
  millrace_async_oldest_seconds: gauge(OF_APP, "How long the oldest of those has waited; 0 when none waits."),
  millrace_queue_depth: gauge(
    [...OF_APP, "priority"],
    "The same runs by their priority: high if it is above 0, low if it is below, else normal.",
  ),
  millrace_replicas: gauge([...OF_APP, "state"], "Replicas: starting, ready or draining."),
  millrace_replica_starts_total: counter(OF_APP, "Replicas started."),
  millrace_cold_starts_total: counter(
    OF_APP,
    "Times an app went from no ready replica to one while calls waited for it. The check of a deploy is none.",
  ),
  millrace_replica_deaths_total: counter(OF_APP, "Replicas that ended unexpectedly."),
  millrace_batches_total: counter(
    [...OF_FUNCTION, "reason"],
    "Batches of calls that left for a replica, by why they left then: idle, full, window, deadline or drain.",
  ),
  millrace_batch_size: histogram(OF_FUNCTION, "How many calls these batches had."),
  millrace_seat_start_seconds: histogram(
    ["phase"],
    "With replicas on other machines: time from the request for a pod or actor until it was scheduled, pulled, connected, fetched, started and imported.",
  ),
  cerebrium_run_execution_time_ms: histogram(HOSTED, "Milliseconds inside the app's functions."),
  cerebrium_run_queue_time_ms: histogram(HOSTED, "Milliseconds that runs waited in the queue."),
  cerebrium_run_coldstart_time_ms: histogram(
    HOSTED,
    "Milliseconds that runs waited for a replica to start; only runs that had to wait for one.",
  ),
  cerebrium_run_response_time_ms: histogram(
    HOSTED,
    "Milliseconds from the acceptance of runs until their end.",
  ),
  cerebrium_run_total: counter(HOSTED, "Runs that ended."),
  cerebrium_run_successes_total: counter(HOSTED, "Runs that ended with success."),
  cerebrium_run_errors_total: counter(HOSTED, "Runs that failed; cancelled ones are in neither."),
  cerebrium_containers_running_count: gauge(HOSTED, "Replicas: starting, ready and draining."),
  cerebrium_containers_ready_count: gauge(HOSTED, "Replicas that take calls."),
  cerebrium_cpu_utilization_cores: gauge(HOSTED, "Processors that the app's replicas use."),
  cerebrium_memory_usage_bytes: gauge(HOSTED, "Memory that the app's replicas use."),
  cerebrium_gpu_memory_usage_bytes: gauge(HOSTED, "GPU memory that the app's replicas use."),
  cerebrium_gpu_compute_utilization_percent: gauge(
    HOSTED,
    "How much of the time the GPUs computed that the app's replicas hold, from 0 to 100: the mean of them.",
  ),
  millrace_builds_total: counter(["status"], "Builds that ended, by final status."),
  millrace_webhook_attempts_total: counter(
    ["result"],
    "Webhook attempts: delivered, retry if another one follows, failed if it was the last.",
  ),
  millrace_webhooks_pending: gauge([], "Deliveries that have not ended."),
  millrace_webhook_oldest_seconds: gauge([], "Age of the oldest of those; 0 when there is none."),
  millrace_commit_seconds: histogram([], "Time a database write takes, from request to durable."),
  millrace_storage_silent: gauge(
    ["lane"],
    "Is 1 while the database does not answer reads, or writes, and requests that need it are refused. Should be 0.",
  ),
  millrace_records_waiting: gauge([], "Records of ended runs that are not stored yet."),
  millrace_runs_lost_total: counter([], "Records of ended runs that will never be stored. Must stay 0."),
  millrace_spans_total: counter(
    ["result"],
    "Spans of traces: exported, or dropped because the collector did not take them. Only if traces are exported.",
  ),
  millrace_event_loop_lag_seconds: gauge(["quantile"], "How late the event loop ran since the last scrape."),
  millrace_disk_bytes: gauge([], "Size of the disk with the data directory."),
  millrace_disk_free_bytes: gauge([], "Free space on it."),
  millrace_disk_low: gauge(
    [],
    "Is 1 while less than the reserve is free, and what would fill the disk is refused.",
  ),
  millrace_gpu_up: gauge(OF_GPU, "Is 1 if the GPU works, and 0 while it is out of service."),
  millrace_gpu_memory_bytes: gauge(OF_GPU, "Memory of the GPU."),
  millrace_gpu_memory_used_bytes: gauge(
    OF_GPU,
    "Memory in use on the GPU, also by programs outside Millrace.",
  ),
  millrace_gpu_memory_granted_bytes: gauge(OF_GPU, "Memory of the GPU that is granted to apps."),
  millrace_gpu_utilization_ratio: gauge(OF_GPU, "How much of the time the GPU computed, from 0 to 1."),
  millrace_gpu_power_watts: gauge(OF_GPU, "Power that the GPU draws."),
  millrace_gpu_temperature_celsius: gauge(OF_GPU, "Temperature of the GPU."),
  millrace_gpu_replica_granted_bytes: gauge(
    OF_REPLICA,
    "Memory of the GPU that is granted to the replica: its share, or all of it.",
  ),
  millrace_gpu_replica_used_bytes: gauge(OF_REPLICA, "Memory of the GPU that the replica's processes use."),
  process_cpu_seconds_total: counter([], "CPU time of the service, without its replicas."),
  process_resident_memory_bytes: gauge([], "Memory of the service, without its replicas."),
  process_open_fds: gauge([], "Open file descriptors of the service."),
  process_start_time_seconds: gauge([], "When the service started, in seconds since 1970."),
} satisfies Record<string, Metric>;

export type MetricName = keyof typeof METRICS;
