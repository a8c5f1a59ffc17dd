import { readdirSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { LiveApp } from "../../apps/catalog.ts";
import type { SpanCounts } from "../../kit/histograms.ts";
import { AppError } from "../../model/errors.ts";
import { BATCH_SIZE_BOUNDS } from "../../replicas/batch-tally.ts";
import type { ManagementParts } from "../parts.ts";
import { nodeGpus } from "./hardware.ts";

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
const OF_GPU = ["uuid", "index", "model"] as const;
const OF_REPLICA = [...OF_APP, "replica", "uuid", "index"] as const;

/** Everything `/metrics` shows, by name. `docs/metrics.md` lists the same. */
export const METRICS = {
  millrace_build_info: gauge(
    ["version", "node", "python", "store"],
    "Always 1; the labels say what is running.",
  ),
  millrace_runs_total: counter([...OF_APP, "state"], "Runs that ended, by final state."),
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
  millrace_replicas: gauge([...OF_APP, "state"], "Replicas: starting, ready or draining."),
  millrace_replica_starts_total: counter(OF_APP, "Replicas started."),
  millrace_cold_starts_total: counter(OF_APP, "Times an app went from no ready replica to one."),
  millrace_replica_deaths_total: counter(OF_APP, "Replicas that ended unexpectedly."),
  millrace_batches_total: counter(
    [...OF_APP, "function", "reason"],
    "Batches of calls that left for a replica, by why they left then: idle, full, window, deadline or drain.",
  ),
  millrace_batch_size: histogram([...OF_APP, "function"], "How many calls these batches had."),
  millrace_seat_start_seconds: histogram(
    ["phase"],
    "With replicas on other machines: time from the request for a pod or actor until it was scheduled, pulled, connected, fetched, started and imported.",
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

type MetricName = keyof typeof METRICS;
type Labels<Name extends MetricName> = Readonly<Record<(typeof METRICS)[Name]["labels"][number], string>>;

type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };

/** The values of all metrics but histograms. */
export class Samples {
  readonly byName = new Map<MetricName, Sample[]>();

  add<Name extends MetricName>(name: Name, labels: Labels<Name>, value: number): void {
    const samples = this.byName.get(name) ?? [];
    this.byName.set(name, samples);
    samples.push({ labels, value });
  }
}

const RESULTS = { delivered: "delivered", pending: "retry", failed: "failed" } as const;
const LAG_RESOLUTION_MS = 20;
const LAG_QUANTILES = [0.5, 0.99, 1];
type Lag = ReturnType<typeof monitorEventLoopDelay>;

async function measure(parts: ManagementParts, lag: Lag): Promise<Samples> {
  const samples = new Samples();
  const { journal, build, store, deployer, deliverer } = parts;
  const { version, python } = build;
  const info = { version, node: process.versions.node, python, store: store.kind };
  samples.add("millrace_build_info", info, 1);
  for (const [status, count] of deployer.ended) samples.add("millrace_builds_total", { status }, count);
  for (const state of ["delivered", "pending", "failed"] as const) {
    samples.add("millrace_webhook_attempts_total", { result: RESULTS[state] }, deliverer.attempts[state]);
  }
  samples.add("millrace_records_waiting", {}, journal.waiting);
  samples.add("millrace_runs_lost_total", {}, journal.lost);
  const { counts } = parts.tracer;
  for (const result of ["exported", "dropped"] as const)
    if (counts) samples.add("millrace_spans_total", { result }, counts[result]);
  measureGpus(parts, samples);
  measureGrants(parts, samples);
  measureProcess(samples);
  measureLag(lag, samples);
  for (const live of parts.catalog.all()) measureApp(live, parts, samples);
  for (const lane of ["read", "write"] as const) {
    samples.add("millrace_storage_silent", { lane }, store.isSilent(lane) ? 1 : 0);
  }
  try {
    await measureStore(parts, samples);
  } catch (error) {
    // The other metrics are most useful while the database is unavailable.
    if (!(error instanceof AppError)) throw error;
  }
  return samples;
}

function measureApp(live: LiveApp, { journal, tallies }: ManagementParts, samples: Samples): void {
  const { app, pool } = live;
  // Idle apps are left out: a thousand of them would be most of the answer.
  if (pool.counts.starts === 0 && pool.slots.waiting === 0) return;
  const of = { project: app.projectId, app: app.name };
  const counts = [journal.ended, ...tallies].map(({ byApp }) => byApp.get(app.number));
  for (const state of ["success", "failure", "cancelled"] as const) {
    const total = counts.reduce((sum, count) => sum + (count?.[state] ?? 0), 0);
    samples.add("millrace_runs_total", { ...of, state }, total);
  }
  const replicas = [...pool.replicas];
  for (const state of ["starting", "ready", "draining"] as const) {
    const count = replicas.filter((replica) => replica.state === state).length;
    samples.add("millrace_replicas", { ...of, state }, count);
  }
  const running = replicas.reduce((sum, { calls }) => sum + calls.size, 0);
  samples.add("millrace_runs_running", of, running);
  samples.add("millrace_runs_waiting", of, pool.slots.waiting);
  samples.add("millrace_queue_oldest_seconds", of, pool.slots.oldestWaitMs / 1000);
  samples.add("millrace_replica_starts_total", of, pool.counts.starts);
  samples.add("millrace_cold_starts_total", of, pool.counts.coldStarts);
  samples.add("millrace_replica_deaths_total", of, pool.counts.deaths);
  for (const [functionName, { byReason }] of batchesOf(live))
    for (const [reason, count] of Object.entries(byReason))
      samples.add("millrace_batches_total", { ...of, function: functionName, reason }, count);
}

/** The batches of the functions that the current version batches: others may have been batched by versions before. */
function batchesOf({ version, pool }: LiveApp) {
  const { batching = {} } = version.config;
  return [...pool.counts.batches.byFunction].filter(([name]) => Object.hasOwn(batching, name));
}

/** What the driver does not say of a GPU has no sample. */
function measureGpus({ gpus }: ManagementParts, samples: Samples): void {
  for (const { uuid, index, model, ...gpu } of nodeGpus(gpus).gpus) {
    const of = { uuid, index: String(index), model };
    samples.add("millrace_gpu_up", of, gpu.fault === null ? 1 : 0);
    samples.add("millrace_gpu_memory_bytes", of, gpu.memoryBytes);
    samples.add("millrace_gpu_memory_granted_bytes", of, gpu.grantedBytes);
    const measured = {
      millrace_gpu_memory_used_bytes: gpu.usedBytes,
      millrace_gpu_utilization_ratio: gpu.utilization === null ? null : gpu.utilization / 100,
      millrace_gpu_power_watts: gpu.watts,
      millrace_gpu_temperature_celsius: gpu.celsius,
    } as const;
    for (const [name, value] of Object.entries(measured))
      if (value !== null) samples.add(name as keyof typeof measured, of, value);
  }
}

/** A replica has samples from its grant until its GPUs are back; so there are no more than fit on the GPUs. */
function measureGrants({ gpus: { source, grants } }: ManagementParts, samples: Samples): void {
  const gpus = new Map(source.current().gpus.map((gpu) => [gpu.uuid, gpu]));
  for (const { gpu: uuid, app, projectId: project, replicaId: replica, ...share } of grants()) {
    const gpu = gpus.get(uuid);
    if (!gpu) continue;
    const of = { project, app, replica, uuid, index: String(gpu.index) };
    samples.add("millrace_gpu_replica_granted_bytes", of, share.memoryBytes ?? gpu.memoryBytes);
    if (share.usedBytes !== null) samples.add("millrace_gpu_replica_used_bytes", of, share.usedBytes);
  }
}

async function measureStore({ store, catalog, clock }: ManagementParts, samples: Samples): Promise<void> {
  const [queued, pending] = await Promise.all([
    store.figures.queuedRuns(),
    store.figures.pendingDeliveries(),
  ]);
  const now = clock.now();
  const age = (since: number | null): number => (since === null ? 0 : Math.max(0, now - since) / 1000);
  for (const { appNumber, count, oldestAt } of queued) {
    const app = catalog.byNumber(appNumber)?.app;
    if (!app) continue;
    const of = { project: app.projectId, app: app.name };
    samples.add("millrace_async_queued", of, count);
    samples.add("millrace_async_oldest_seconds", of, age(oldestAt));
  }
  samples.add("millrace_webhooks_pending", {}, pending.count);
  samples.add("millrace_webhook_oldest_seconds", {}, age(pending.oldestAt));
}

function measureProcess(samples: Samples): void {
  const { user, system } = process.cpuUsage();
  samples.add("process_cpu_seconds_total", {}, (user + system) / 1e6);
  samples.add("process_resident_memory_bytes", {}, process.memoryUsage.rss());
  samples.add("process_open_fds", {}, readdirSync("/proc/self/fd").length);
  samples.add("process_start_time_seconds", {}, Math.round(performance.timeOrigin) / 1000);
}

function measureLag(lag: Lag, samples: Samples): void {
  for (const quantile of LAG_QUANTILES) {
    // The histogram records the time between two ticks of its timer.
    const nanoseconds = lag.count === 0 ? 0 : lag.percentile(quantile * 100);
    const seconds = Math.max(0, nanoseconds / 1e9 - LAG_RESOLUTION_MS / 1000);
    samples.add("millrace_event_loop_lag_seconds", { quantile: String(quantile) }, seconds);
  }
  lag.reset();
}

/** `GET /metrics`, in the text form that Prometheus reads. Between scrapes it costs one timer. */
export function metricsRoutes(
  app: FastifyInstance,
  parts: ManagementParts,
  authorizeOperator: (request: FastifyRequest) => Promise<void>,
): void {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  lag.enable();
  app.addHook("onClose", () => void lag.disable());
  app.get("/metrics", async (request, reply) => {
    await authorizeOperator(request);
    reply.type("text/plain; version=0.0.4; charset=utf-8");
    return reply.send(exposition(await measure(parts, lag), histogramsOf(parts)));
  });
}

type Histograms = Readonly<Partial<Record<MetricName, readonly Histogram[]>>>;
type Histogram = {
  readonly labels: Sample["labels"];
  /** The upper bound of each class; larger values are in none. */
  readonly bounds: readonly number[];
  readonly counts: readonly number[];
  readonly count: number;
  readonly sum: number;
};

function histogramsOf({ store, seatStarts, catalog }: ManagementParts): Histograms {
  return {
    millrace_batch_size: catalog.all().flatMap((live) => batchSizes(live)),
    millrace_commit_seconds: [inSeconds({}, store.commits)],
    millrace_seat_start_seconds: Array.from(seatStarts, ([phase, spans]) => inSeconds({ phase }, spans)),
  };
}

function batchSizes(live: LiveApp): Histogram[] {
  const of = { project: live.app.projectId, app: live.app.name };
  return batchesOf(live).map(([functionName, { sizes, batches, calls }]) => ({
    labels: { ...of, function: functionName },
    bounds: BATCH_SIZE_BOUNDS,
    counts: sizes,
    count: batches,
    sum: calls,
  }));
}

export function inSeconds(
  labels: Sample["labels"],
  { boundsMs, counts, count, sumMs }: SpanCounts,
): Histogram {
  return { labels, bounds: boundsMs.map((ms) => ms / 1000), counts, count, sum: sumMs / 1000 };
}

/** Each metric's help and type, then its samples. A metric without labels always has a sample. */
export function exposition({ byName }: Samples, histograms: Histograms): string {
  const parts = Object.entries<Metric>(METRICS).map(([key, { kind, labels, help }]) => {
    const name = key as MetricName;
    const zero = labels.length === 0 ? [{ labels: {}, value: 0 }] : [];
    const lines =
      kind === "histogram"
        ? (histograms[name] ?? []).flatMap((each) => linesOf(name, each))
        : (byName.get(name) ?? zero).map((sample) => line(name, sample));
    return [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`, ...lines].join("\n");
  });
  return `${parts.join("\n\n")}\n`;
}

function linesOf(name: string, { labels, bounds, counts, count, sum }: Histogram): string[] {
  let total = 0;
  const buckets = bounds.map((bound, i) => {
    total += counts[i] ?? 0;
    return { labels: { ...labels, le: String(bound) }, value: total };
  });
  const all = { labels: { ...labels, le: "+Inf" }, value: count };
  return [
    ...[...buckets, all].map((sample) => line(`${name}_bucket`, sample)),
    line(`${name}_sum`, { labels, value: sum }),
    line(`${name}_count`, { labels, value: count }),
  ];
}

function line(name: string, { labels, value }: Sample): string {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${text.replace(/["\\\n]/g, escape)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}`;
}

function escape(character: string): string {
  return character === "\n" ? "\\n" : `\\${character}`;
}
