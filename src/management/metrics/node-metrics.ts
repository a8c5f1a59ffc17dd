import { readdirSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { nodeGpus } from "../installation/hardware.ts";
import type { ManagementParts } from "../parts.ts";
import { IN_SECONDS, labelText, type Sink } from "./page.ts";
import { type Metric, type MetricName, METRICS } from "./table.ts";

type Labels<Name extends MetricName> = Readonly<Record<(typeof METRICS)[Name]["labels"][number], string>>;
type Sample = { readonly labels: string; readonly value: number };

/** The samples of the metrics that are about no app. */
export class Samples {
  readonly byName = new Map<MetricName, Sample[]>();

  add<Name extends MetricName>(name: Name, labels: Labels<Name>, value: number): void {
    const samples = this.byName.get(name) ?? [];
    this.byName.set(name, samples);
    samples.push({ labels: labelText(labels), value });
  }

  /** Its value is not known now. */
  leaveOut(name: MetricName): void {
    this.byName.set(name, []);
  }

  /** A metric without labels always has a sample, unless it was left out. */
  write(page: Sink, name: MetricName): void {
    const { kind, labels: of }: Metric = METRICS[name];
    const zero = of.length === 0 && kind !== "histogram" ? [{ labels: "", value: 0 }] : [];
    for (const { labels, value } of this.byName.get(name) ?? zero) page.sample(labels, value);
  }
}

const RESULTS = { delivered: "delivered", pending: "retry", failed: "failed" } as const;
const LAG_RESOLUTION_MS = 20;
const LAG_QUANTILES = [0.5, 0.99, 1];

/** How late the event loop runs. Between scrapes it costs one timer. */
export class Lag {
  readonly #delays = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });

  constructor() {
    this.#delays.enable();
  }

  /** Over the time since the last time. */
  measure(samples: Samples): void {
    const delays = this.#delays;
    for (const quantile of LAG_QUANTILES) {
      // The histogram records the time between two ticks of its timer.
      const nanoseconds = delays.count === 0 ? 0 : delays.percentile(quantile * 100);
      const seconds = Math.max(0, nanoseconds / 1e9 - LAG_RESOLUTION_MS / 1000);
      samples.add("millrace_event_loop_lag_seconds", { quantile: String(quantile) }, seconds);
    }
    delays.reset();
  }

  stop(): void {
    this.#delays.disable();
  }
}

/** What is about the service, its machine and the database as a whole. */
export function measureNode(parts: ManagementParts, samples: Samples): void {
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
  for (const lane of ["read", "write"] as const) {
    samples.add("millrace_storage_silent", { lane }, store.isSilent(lane) ? 1 : 0);
  }
  measureGpus(parts, samples);
  measureGrants(parts, samples);
  measureProcess(samples);
  measureDisk(parts, samples);
}

/** The histograms that are about no app. */
export function writeHistograms(page: Sink, name: MetricName, { store, seatStarts }: ManagementParts): void {
  if (name === "millrace_commit_seconds") page.histogram("", store.commits, IN_SECONDS);
  if (name !== "millrace_seat_start_seconds") return;
  for (const [phase, spans] of seatStarts) page.histogram(labelText({ phase }), spans, IN_SECONDS);
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

function measureProcess(samples: Samples): void {
  const { user, system } = process.cpuUsage();
  samples.add("process_cpu_seconds_total", {}, (user + system) / 1e6);
  samples.add("process_resident_memory_bytes", {}, process.memoryUsage.rss());
  samples.add("process_open_fds", {}, readdirSync("/proc/self/fd").length);
  samples.add("process_start_time_seconds", {}, Math.round(performance.timeOrigin) / 1000);
}

function measureDisk({ reserve }: ManagementParts, samples: Samples): void {
  samples.add("millrace_disk_low", {}, reserve.isLow ? 1 : 0);
  const { space } = reserve;
  samples.add("millrace_disk_bytes", {}, space?.bytes ?? 0);
  samples.add("millrace_disk_free_bytes", {}, space?.freeBytes ?? 0);
}
