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
import { CONTENT_TYPES, type Form, formOf, Page } from "./page.ts";
import { ReplicaUsage } from "./replica-usage.ts";
import { type MetricName, METRICS } from "./table.ts";

/** `GET /metrics`, in the form that the scraper asks for. */
export function metricsRoutes(
  app: FastifyInstance,
  parts: ManagementParts,
  authorizeOperator: (request: FastifyRequest) => Promise<void>,
): void {
  const lag = new Lag();
  const usage = new ReplicaUsage(parts.clock);
  app.addHook("onClose", () => lag.stop());
  app.get("/metrics", async (request, reply) => {
    await authorizeOperator(request);
    const form = formOf(request.headers.accept);
    const samples = new Samples();
    lag.measure(samples);
    const apps = await measure(parts, usage, samples);
    reply.type(CONTENT_TYPES[form]).header("vary", "Accept");
    const now = parts.clock.now();
    const nodes = (page: Page, name: MetricName): void => {
      samples.write(page, name);
      writeHistograms(page, name, parts);
    };
    return reply.send(Readable.from(exposition(form, apps, now, nodes), { objectMode: false }));
  });
}

/** The whole answer, piece by piece; other work has its turn after each of them. */
export async function* exposition(
  form: Form,
  apps: readonly AppFigures[],
  now: number,
  writeOther: (page: Page, name: MetricName) => void,
): AsyncGenerator<string> {
  const page = new Page(form);
  for (const name of Object.keys(METRICS) as MetricName[]) {
    page.begin(name);
    const write = APP_METRICS[name];
    if (!write) writeOther(page, name);
    else
      for (const app of apps) {
        write(page, app, now);
        if (!page.isFull) continue;
        yield page.take();
        await turn();
      }
  }
  page.end();
  yield page.take();
}

async function measure(
  parts: ManagementParts,
  replicaUsage: ReplicaUsage,
  samples: Samples,
): Promise<AppFigures[]> {
  const { catalog, tally } = parts;
  const open = catalog.all().map((live) => ({ live, versions: catalog.versions(live.app.number) }));
  const replicas = new Map(
    open.map(({ live, versions }) => [live.app.number, versions.flatMap(({ pool }) => [...pool.replicas])]),
  );
  measureNode(parts, samples);
  const [queued] = await Promise.all([
    measureStore(parts, samples),
    replicaUsage.look([...replicas.values()]),
  ]);
  const gpus = gpuUsage(parts);
  const { apps, leftOut } = figuresOf(open, {
    tally,
    queued,
    usageOf: (number) => replicaUsage.of(replicas.get(number) ?? []),
    gpusOf: ({ projectId, name }) => gpus.get(`${projectId}/${name}`) ?? null,
  });
  samples.add("millrace_functions_left_out", {}, leftOut);
  return apps;
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
