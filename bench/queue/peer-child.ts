import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import type { PeerId, PeerWay, SubmitJob } from "./peers.ts";

// One side of a peer, in a process of its own: `node peer-child.ts work|submit PEER WAY DATABASE_URL PACKAGES`. It says
// {"ready":true} when it is up. The worker answers each line with {"handled": how many jobs it has}; the submitter takes a
// SubmitJob in each and answers with {"submitted": how many of them are stored}.

/** What this needs of a peer, whichever it is. */
type Side = {
  readonly work: (handled: (count: number) => void) => Promise<void>;
  readonly submit: () => Promise<unknown>;
  readonly submitMany: (count: number) => Promise<unknown>;
  readonly stop: () => Promise<void>;
};

/** The parts of pg-boss and graphile-worker that are used here: neither is a dependency of this repository. */
type Boss = {
  readonly on: (event: "error", listener: (error: Error) => void) => void;
  readonly start: () => Promise<unknown>;
  readonly stop: (options: { graceful: boolean }) => Promise<void>;
  readonly createQueue: (name: string, options: object) => Promise<void>;
  readonly work: (
    name: string,
    options: object,
    handler: (jobs: unknown[]) => Promise<void>,
  ) => Promise<string>;
  readonly send: (name: string, data: object) => Promise<unknown>;
  readonly insert: (name: string, jobs: { data: object }[]) => Promise<unknown>;
};
type BossPackage = { readonly PgBoss: new (options: object) => Boss };
type Utils = {
  readonly migrate: () => Promise<void>;
  readonly addJob: (name: string, data: object) => Promise<unknown>;
  readonly addJobs: (jobs: { identifier: string; payload: object }[]) => Promise<unknown>;
  readonly release: () => Promise<void>;
};
type GraphilePackage = {
  readonly Logger: new (make: () => () => void) => object;
  readonly makeWorkerUtils: (options: object) => Promise<Utils>;
  readonly run: (options: object) => Promise<{ readonly stop: () => Promise<void> }>;
};

const QUEUE = "noop";
const DATA = { name: "ada", n: 3 };
/** Connections of the submitter's own. */
const SUBMIT_POOL = 20;
/** As its documents have it for throughput (worker.graphile.org/docs/performance). */
const GRAPHILE = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

const [role, peer, wayText = "{}", connectionString, packages = ""] = process.argv.slice(2);
const way = JSON.parse(wayText) as PeerWay;

async function load<T>(name: string): Promise<T> {
  const path = createRequire(join(packages, "package.json")).resolve(name);
  return (await import(pathToFileURL(path).href)) as T;
}

async function boss(): Promise<Side> {
  const { PgBoss } = await load<BossPackage>("pg-boss");
  const isWorker = role === "work";
  const own = { useListenNotify: way.isNotified, schedule: false, supervise: isWorker };
  const one = new PgBoss({ connectionString, ...own, ...(!isWorker && { max: SUBMIT_POOL }) });
  one.on("error", (error) => console.error(error));
  await one.start();
  await one.createQueue(QUEUE, { notify: way.isNotified });
  const { batchSize, localConcurrency } = way;
  return {
    work: async (handled) => {
      const options = { batchSize, localConcurrency, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
      await one.work(QUEUE, options, async (jobs) => handled(jobs.length));
    },
    submit: () => one.send(QUEUE, DATA),
    submitMany: (count) =>
      one.insert(
        QUEUE,
        Array.from({ length: count }, () => ({ data: DATA })),
      ),
    stop: () => one.stop({ graceful: false }),
  };
}

async function graphile(): Promise<Side> {
  const { Logger, makeWorkerUtils, run } = await load<GraphilePackage>("graphile-worker");
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ connectionString, maxPoolSize: SUBMIT_POOL, logger });
  await utils.migrate();
  let worker: { readonly stop: () => Promise<void> } | null = null;
  return {
    work: async (handled) => {
      const preset = { worker: { connectionString, ...GRAPHILE } };
      const taskList = { [QUEUE]: async () => handled(1) };
      worker = await run({ preset, taskList, parsedCronItems: [], noHandleSignals: true, logger });
    },
    submit: () => utils.addJob(QUEUE, DATA),
    submitMany: (count) =>
      utils.addJobs(Array.from({ length: count }, () => ({ identifier: QUEUE, payload: DATA }))),
    stop: async () => {
      await worker?.stop();
      await utils.release();
    },
  };
}

/** Submits one at a time on each of so many lines for so long, or so many in all, in portions. */
async function submit(side: Side, job: SubmitJob): Promise<number> {
  let submitted = 0;
  if ("count" in job) {
    for (; submitted < job.count; submitted += job.portion)
      await side.submitMany(Math.min(job.portion, job.count - submitted));
    return job.count;
  }
  const until = performance.now() + job.measureMs;
  const again = async () => {
    while (performance.now() < until) {
      await side.submit();
      submitted += 1;
    }
  };
  await Promise.all(Array.from({ length: job.inFlight }, again));
  return submitted;
}

const sides: Record<PeerId, () => Promise<Side>> = { boss, graphile };
const side = await sides[peer as PeerId]();
let handled = 0;
if (role === "work") await side.work((count) => void (handled += count));
console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  if (role === "work") console.log(JSON.stringify({ handled }));
  else console.log(JSON.stringify({ submitted: await submit(side, JSON.parse(line) as SubmitJob) }));
}
await side.stop();
process.exit();
