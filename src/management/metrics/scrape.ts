import { Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { AppError } from "../../model/errors.ts";
import type { QueuedRuns } from "../../store/runs/run-figures.ts";
import { nodeGpus } from "../installation/hardware.ts";
import type { ManagementParts } from "../parts.ts";
import { type AppFigures, figuresOf } from "./app-figures.ts";
import { APP_METRICS } from "./app-metrics.ts";
import { Lag, measureNode, Samples, writeHistograms } from "./node-metrics.ts";
import { CONTENT_TYPES, formOf, Page, type Sink } from "./page.ts";
import { ReplicaUsage } from "./replica-usage.ts";
import { type MetricName, METRICS } from "./table.ts";

/** `GET /metrics`, in the form that the scraper asks for. */
export function metricsRoutes(
  app: FastifyInstance,
  scraper: Scraper,
  authorizeOperator: (request: FastifyRequest) => Promise<void>,
): void {
  const lag = new Lag();
  app.addHook("onClose", () => lag.stop());
  app.get("/metrics", async (request, reply) => {
    await authorizeOperator(request);
    const form = formOf(request.headers.accept);
    const samples = new Samples();
    lag.measure(samples);
    const scrape = await scraper.measure(samples);
    reply.type(CONTENT_TYPES[form]).header("vary", "Accept");
    return reply.send(Readable.from(written(new Page(form), scrape), { objectMode: false }));
  });
}

/** What is to be told, of all apps and of everything else. */
export type Scrape = {
  readonly apps: readonly AppFigures[];
  /** Epoch milliseconds. */
  readonly now: number;
  readonly writeOther: (sink: Sink, name: MetricName) => void;
};

/** All metrics, piece by piece; other work has its turn after each of them. */
export async function* written<Piece>(
  sink: Sink & { readonly isFull: boolean; take(): Piece; end(): void },
  { apps, now, writeOther }: Scrape,
): AsyncGenerator<Piece> {
  for (const name of Object.keys(METRICS) as MetricName[]) {
    sink.begin(name);
    const write = APP_METRICS[name];
    if (!write) writeOther(sink, name);
    else
      for (const app of apps) {
        write(sink, app, now);
        if (!sink.isFull) continue;
        yield sink.take();
        await turn();
      }
  }
  sink.end();
  yield sink.take();
}

/** Reads everything that metrics tell. */
export class Scraper {
  readonly #parts: ManagementParts;
  readonly #usage: ReplicaUsage;

  constructor(parts: ManagementParts) {
    this.#parts = parts;
    this.#usage = new ReplicaUsage(parts.clock);
  }

  /** Adds to samples that were measured before. */
  async measure(samples: Samples): Promise<Scrape> {
    const parts = this.#parts;
    const { catalog, tally, clock } = parts;
    const open = catalog.all().map((live) => ({ live, versions: catalog.versions(live.app.number) }));
    const replicas = new Map(
      open.map(({ live, versions }) => [live.app.number, versions.flatMap(({ pool }) => [...pool.replicas])]),
    );
    measureNode(parts, samples);
    const [queued] = await Promise.all([
      measureStore(parts, samples),
      this.#usage.look([...replicas.values()]),
    ]);
    const gpus = gpuUsage(parts);
    const { apps, leftOut } = figuresOf(open, {
      tally,
      queued,
      usageOf: (number) => this.#usage.of(replicas.get(number) ?? []),
      gpusOf: ({ projectId, name }) => gpus.get(`${projectId}/${name}`) ?? null,
    });
    samples.add("millrace_functions_left_out", {}, leftOut);
    const writeOther = (sink: Sink, name: MetricName): void => {
      samples.write(sink, name);
      writeHistograms(sink, name, parts);
    };
    return { apps, now: clock.now(), writeOther };
  }
}

/** What is read from the database; null while it is unavailable, when the other metrics are most useful. */
async function measureStore(
  { store, clock }: ManagementParts,
  samples: Samples,
): Promise<Map<number, QueuedRuns> | null> {
  try {
    const [queued, { count, oldestAt }] = await Promise.all([
      store.figures.queuedRuns(),
      store.figures.pendingDeliveries(),
    ]);
    const age = oldestAt === null ? 0 : Math.max(0, clock.now() - oldestAt) / 1000;
    samples.add("millrace_webhooks_pending", {}, count);
    samples.add("millrace_webhook_oldest_seconds", {}, age);
    return new Map(queued.map((runs) => [runs.appNumber, runs]));
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    samples.leaveOut("millrace_webhooks_pending");
    samples.leaveOut("millrace_webhook_oldest_seconds");
    return null;
  }
}

/** What the replicas of each app use of their GPUs, by project and name. */
function gpuUsage({ gpus }: ManagementParts) {
  const utilization = new Map(
    nodeGpus(gpus).gpus.map(({ uuid, utilization: percent }) => [uuid, percent ?? 0]),
  );
  const held = Map.groupBy(gpus.grants(), ({ projectId, app }) => `${projectId}/${app}`);
  return new Map(
    Array.from(held, ([app, grantsOfApp]) => {
      const usedBytes = grantsOfApp.reduce((sum, grant) => sum + (grant.usedBytes ?? 0), 0);
      const shares = [...new Set(grantsOfApp.map(({ gpu }) => gpu))].map((gpu) => utilization.get(gpu) ?? 0);
      return [app, { usedBytes, percent: shares.reduce((sum, share) => sum + share, 0) / shares.length }];
    }),
  );
}
