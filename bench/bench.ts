import { join } from "node:path";
import { parseArgs } from "node:util";
import { judgeAgainst, measureAgainst } from "./against.ts";
import { DATABASES } from "./async-database.ts";
import { asyncText } from "./async-report.ts";
import { judgeAsync } from "./async-targets.ts";
import { type AsyncSettings, measureAsync } from "./async.ts";
import { judgeCold, measureCold } from "./cold.ts";
import { batchingText } from "./batching/batching-report.ts";
import { judgeBatching } from "./batching/batching-targets.ts";
import { BATCHING_PART_IDS, type BatchingSettings, measureBatching } from "./batching/batching.ts";
import { writePlots } from "./batching/plots.ts";
import { deployText } from "./deploy-report.ts";
import { judgeDeploy } from "./deploy-targets.ts";
import { measureDeploy } from "./deploy.ts";
import { clusterText } from "./cluster/cluster-report.ts";
import { judgeCluster } from "./cluster/cluster-targets.ts";
import { measureCluster } from "./cluster/cluster.ts";
import { gpuText, judgeGpu } from "./gpu-report.ts";
import { GPU_PART_IDS, type GpuPartId, measureGpu } from "./gpu.ts";
import { describeMachine } from "./machine.ts";
import { judgeMemory, measureMemory, memoryText } from "./memory.ts";
import { stopAll } from "./processes.ts";
import { clearProgress } from "./progress.ts";
import { topFunctions } from "./profile-top.ts";
import { coldText, syncText } from "./report.ts";
import { removeScratchDirs } from "./scratch.ts";
import { PART_IDS, type PartId, PARTS } from "./stream-parts.ts";
import { streamText } from "./stream-report.ts";
import { judgeStream } from "./stream-targets.ts";
import { queueText } from "./queue/queue-report.ts";
import { judgeQueue } from "./queue/queue-targets.ts";
import { isQueueSound, measureQueue, QUEUE_PART_IDS, type QueueSettings } from "./queue/queue.ts";
import { measureStream, type StreamSettings } from "./stream.ts";
import { judgeSeats, measureSeats } from "./seats/seats.ts";
import { serverText } from "./server-report.ts";
import { judgeServer } from "./server-targets.ts";
import { measureTraffic } from "./server-traffic.ts";
import { SERVER_SUBJECTS } from "./server.ts";
import { SUBJECTS } from "./subjects.ts";
import { measureSync, type SyncSettings } from "./sync.ts";
import { judgeSync, type Verdict } from "./targets.ts";
import { wallsText } from "./walls-report.ts";
import { judgeWalls } from "./walls-targets.ts";
import { measureWalls } from "./walls.ts";

const USAGE = `usage: npm run bench sync|server|cluster|seats|batching|cold|stream|async|queue|deploy|walls|memory|gpu [-- options]
  sync          calls/s and latency beside the floor and FastAPI
  server        FastAPI as a server app beside a bare pass-through and alone: calls, bodies, streams, WebSockets
  cluster       calls and streams of an app that another node has, beside a bare pass-through to that node
  seats         calls of an app in a seat elsewhere, beside a bare TLS pass-through to the replica
  batching      calls that share executions beside calls one by one, fixed policies, Ray Serve, LitServe and BentoML
  cold          from zero replicas to the answer, and scaling out
  stream        messages/s, delays and memory of streams beside the floor and FastAPI
  async         durable 202s/s, runs finished and dispatch delays beside the bare group commit
  queue         async runs from submit to end, beside themselves with priorities and fairness, pg-boss and graphile-worker;
                one caller's many waiting runs beside another caller's one; a batch of many lines
  deploy        from a zip to the first answer, new and again, beside a bare start of the same function
  walls         what walls around apps cost: calls, first starts, starts from a kept template
  memory        what the service and its apps hold, idle and after a load; takes four minutes, without options but --json
  gpu           decoders as 256 streams and first tokens beside their bare loop, starts beside a bare context, batches
                beside their bare loop; needs an NVIDIA GPU and PyTorch in python3
  --rounds N    rounds of each measurement (sync, server, cluster, seats 15, quick 3; batching 9, 1; cold 5, 3; stream, async 3, 1; queue 5, 1; deploy, walls 20, 5; gpu 3, 1)
  --seconds S   length of a round, not for cold, deploy nor parts fast, open (default 2, sync, server, cluster, seats and batching 1, quick 0.7)
  --against DIR sync, queue: pairs of fresh services of this checkout and another one, two rounds each (default 20 rounds)
  --database D  async, queue: ${DATABASES.join(" or ")} (default ${DATABASES[0]}, of queue both)
  --million     queue only: one caller's runs and the lines of a batch are 1,000,000 (default 100,000, quick 5,000)
  --part P      may be repeated; stream: ${PART_IDS.join(", ")}; batching: ${BATCHING_PART_IDS.join(", ")}; queue: ${QUEUE_PART_IDS.join(", ")}; gpu: ${GPU_PART_IDS.join(", ")}
  --plots DIR   batching only: writes plots of calls per second and p95 against the load
  --profile DIR stream, async, queue: CPU profiles of the service, and its busiest functions in the report; queue: of peers, too
  --tiny        gpu only, parts embeddings and stepper: with models that need no GPU, to try that the bench works
  --quick       a short look; read nothing into small differences
  --json        one JSON document on stdout`;

const TOP_FUNCTIONS = 12;

/** Ten pairs. */
const AGAINST_ROUNDS = 20;

/** Usually, and for a quick look. */
const ROUNDS: Readonly<Record<string, readonly [number, number]>> = {
  sync: [15, 3],
  server: [15, 3],
  cluster: [15, 3],
  seats: [15, 3],
  batching: [9, 1],
  cold: [5, 3],
  stream: [3, 1],
  async: [3, 1],
  queue: [5, 1],
  deploy: [20, 5],
  walls: [20, 5],
  memory: [1, 1],
  gpu: [3, 1],
};

let isInterrupted = false;

/** Runs one bench and resolves with whether it was sound and every target that it could measure is met. */
async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: "string" },
      seconds: { type: "string" },
      database: { type: "string" },
      part: { type: "string", multiple: true },
      profile: { type: "string" },
      plots: { type: "string" },
      against: { type: "string" },
      tiny: { type: "boolean", default: false },
      million: { type: "boolean", default: false },
      quick: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
    },
  });
  const [what, ...more] = positionals;
  const isStream = what === "stream";
  const isAsync = what === "async";
  const isQueue = what === "queue";
  const isLong = isStream || isAsync || isQueue;
  const [usual, quick] = ROUNDS[what ?? ""] ?? [0, 0];
  const isAgainst = values.against !== undefined && !values.quick;
  const rounds = Number(values.rounds ?? (isAgainst ? AGAINST_ROUNDS : values.quick ? quick : usual));
  const isSync = ["sync", "server", "cluster", "seats"].includes(what ?? "");
  const isBatching = what === "batching";
  const usualSeconds = isSync || isBatching || what === "walls" ? 1 : 2;
  const measureMs = Number(values.seconds ?? (values.quick ? 0.7 : usualSeconds)) * 1000;
  const isGpu = what === "gpu";
  const parts = PART_IDS.filter((part) => values.part?.includes(part) ?? true);
  const gpuParts = GPU_PART_IDS.filter((part) => values.part?.includes(part) ?? true);
  const batchingParts = BATCHING_PART_IDS.filter((part) => values.part?.includes(part) ?? true);
  const queueParts = QUEUE_PART_IDS.filter((part) => values.part?.includes(part) ?? true);
  const knownParts: Readonly<Record<string, readonly string[]>> = {
    batching: BATCHING_PART_IDS,
    gpu: GPU_PART_IDS,
    stream: PART_IDS,
    queue: values.against === undefined ? QUEUE_PART_IDS : [],
  };
  const known = knownParts[what ?? ""] ?? [];
  const databases = DATABASES.filter((kind) => kind === (values.database ?? kind));
  const [database] = databases;
  const isSound =
    Number.isInteger(rounds) &&
    rounds > 0 &&
    measureMs > 0 &&
    more.length === 0 &&
    (values.part ?? []).every((part) => known.includes(part)) &&
    (isLong || values.profile === undefined) &&
    (what === "sync" || isQueue || values.against === undefined) &&
    (isQueue || !values.million) &&
    (isBatching || values.plots === undefined) &&
    (!values.tiny || (isGpu && gpuParts.every((part) => part === "embeddings" || part === "stepper"))) &&
    (isAsync || isQueue || values.database === undefined);
  if (isSound && isSync) {
    const settings = { rounds, measureMs, warmUpMs: values.quick ? 500 : 3000 };
    if (values.against !== undefined) return against(values.against, settings, values.json);
    if (what === "cluster") return cluster(settings, values.json);
    if (what === "seats") return seats(settings, values.json);
    return what === "sync" ? sync(settings, values.json) : server(settings, values.json);
  }
  if (isSound && what === "walls") {
    return walls({ rounds, measureMs, warmUpMs: values.quick ? 500 : 3000 }, values.json);
  }
  if (isSound && what === "memory" && values.rounds === undefined && values.seconds === undefined)
    return memory(values.json);
  if (isSound && isBatching) {
    const settings = { parts: batchingParts, rounds, measureMs, warmUpMs: values.quick ? 300 : 1000 };
    return batching(settings, values.plots, values.json);
  }
  if (isSound && isGpu) return gpu(gpuParts, rounds, measureMs, values.tiny, values.json);
  if (isSound && what === "cold" && values.seconds === undefined) return cold(rounds, values.json);
  if (isSound && what === "deploy" && values.seconds === undefined) return deploy(rounds, values.json);
  if (isSound && isStream) {
    return stream(parts, { rounds, measureMs, profileDir: values.profile }, values.json);
  }
  if (isSound && isQueue && databases.length > 0) {
    const [many, batch] = values.quick ? [5_000, 5_000] : [100_000, 50_000];
    const settings = { databases, parts: queueParts, against: values.against, rounds, measureMs, batch };
    const sizes = { many: values.million ? 1_000_000 : many, profileDir: values.profile };
    return queue({ ...settings, ...sizes }, values.json);
  }
  if (isSound && isAsync && database !== undefined) {
    return async({ database, rounds, measureMs, profileDir: values.profile }, values.json);
  }
  throw new Error(USAGE);
}

async function sync(settings: SyncSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const subjects = await measureSync(SUBJECTS, settings);
  const verdicts = judgeSync(subjects);
  print(
    asJson
      ? JSON.stringify({ machine, settings, subjects, verdicts })
      : syncText(machine, settings, subjects, verdicts),
  );
  const isSound = subjects.every(({ status }) => status === "measured" || status === "skipped");
  return isSound && noneMissed(verdicts);
}

async function against(checkout: string, settings: SyncSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const subjects = await measureAgainst(checkout, settings);
  const verdicts = judgeAgainst(subjects);
  print(
    asJson
      ? JSON.stringify({ machine, settings, subjects, verdicts })
      : syncText(machine, settings, subjects, verdicts),
  );
  return subjects.every(({ status }) => status === "measured") && noneMissed(verdicts);
}

async function server(settings: SyncSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const subjects = await measureSync(SERVER_SUBJECTS, settings);
  // With fresh servers in each round; of calls there are many rounds, because they are short.
  const traffic = await measureTraffic(Math.ceil(settings.rounds / 3), settings.measureMs);
  const verdicts = judgeServer(subjects, traffic);
  print(
    asJson
      ? JSON.stringify({ machine, settings, subjects, traffic, verdicts })
      : serverText({ machine, settings, subjects, traffic, verdicts }),
  );
  const isSound = subjects.every(({ status }) => status === "measured" || status === "skipped");
  return isSound && traffic.problem === null && noneMissed(verdicts);
}

async function cluster(settings: SyncSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureCluster(settings);
  const verdicts = judgeCluster(figures);
  print(
    asJson
      ? JSON.stringify({ machine, settings, figures, verdicts })
      : clusterText(machine, settings, figures, verdicts),
  );
  const all = [...figures.subjects, ...figures.streams.flatMap(({ subjects }) => subjects)];
  return all.every(({ status }) => status === "measured") && noneMissed(verdicts);
}

async function seats(settings: SyncSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const subjects = await measureSeats(settings);
  const verdicts = judgeSeats(subjects);
  print(
    asJson
      ? JSON.stringify({ machine, settings, subjects, verdicts })
      : syncText(machine, settings, subjects, verdicts),
  );
  return subjects.every(({ status }) => status === "measured") && noneMissed(verdicts);
}

async function batching(
  settings: BatchingSettings,
  plotsDir: string | undefined,
  asJson: boolean,
): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureBatching(settings);
  const verdicts = judgeBatching(figures);
  if (plotsDir !== undefined && figures.problem === null) writePlots(plotsDir, figures);
  print(
    asJson
      ? JSON.stringify({ machine, settings, figures, verdicts })
      : batchingText(machine, settings, figures, verdicts),
  );
  const isSound = figures.subjects.every(({ status }) => status === "measured" || status === "skipped");
  return isSound && figures.problem === null && noneMissed(verdicts);
}

async function cold(repeats: number, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureCold(repeats);
  const verdicts = judgeCold(figures);
  print(asJson ? JSON.stringify({ machine, figures, verdicts }) : coldText(machine, figures, verdicts));
  return figures.problem === null && noneMissed(verdicts);
}

async function deploy(rounds: number, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureDeploy(rounds);
  const verdicts = judgeDeploy(figures);
  print(asJson ? JSON.stringify({ machine, figures, verdicts }) : deployText(machine, figures, verdicts));
  return figures.problem === null && noneMissed(verdicts);
}

async function walls(settings: SyncSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureWalls(settings);
  const verdicts = judgeWalls(figures);
  print(asJson ? JSON.stringify({ machine, figures, verdicts }) : wallsText(machine, figures, verdicts));
  return figures.problem === null && noneMissed(verdicts);
}

async function memory(asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureMemory();
  const verdicts = judgeMemory(figures);
  print(asJson ? JSON.stringify({ machine, figures, verdicts }) : memoryText(machine, figures, verdicts));
  return figures.problem === null && noneMissed(verdicts);
}

async function gpu(
  parts: readonly GpuPartId[],
  rounds: number,
  measureMs: number,
  isTiny: boolean,
  asJson: boolean,
): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureGpu(parts, rounds, measureMs, isTiny);
  const verdicts = judgeGpu(figures);
  print(asJson ? JSON.stringify({ machine, figures, verdicts }) : gpuText(machine, figures, verdicts));
  return figures.problem === null && noneMissed(verdicts);
}

async function stream(ids: readonly PartId[], settings: StreamSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const parts = PARTS.filter(({ id }) => ids.includes(id));
  const results = await measureStream(parts, settings);
  const verdicts = judgeStream(results);
  const { profileDir } = settings;
  const profiles =
    profileDir === undefined
      ? []
      : parts.map(({ id, title }) => ({ title, top: topFunctions(join(profileDir, id), TOP_FUNCTIONS) }));
  print(
    asJson
      ? JSON.stringify({ machine, settings, results, verdicts, profiles })
      : streamText(machine, settings, results, verdicts, profiles),
  );
  const subjects = results.flatMap((result) => result.subjects);
  const isSound = subjects.every(({ status }) => status === "measured" || status === "skipped");
  return isSound && noneMissed(verdicts);
}

async function async(settings: AsyncSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const result = await measureAsync(settings);
  const verdicts = judgeAsync(settings.database, result);
  const { profileDir } = settings;
  const top = profileDir === undefined ? [] : topFunctions(profileDir, TOP_FUNCTIONS);
  print(
    asJson
      ? JSON.stringify({ machine, settings, result, verdicts, top })
      : asyncText(machine, settings, result, verdicts, top),
  );
  return result.problem === null && noneMissed(verdicts);
}

async function queue(settings: QueueSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureQueue(settings);
  const verdicts = judgeQueue(figures);
  print(
    asJson
      ? JSON.stringify({ machine, settings, figures, verdicts })
      : queueText(machine, settings, figures, verdicts),
  );
  return isQueueSound(figures) && noneMissed(verdicts);
}

function noneMissed(verdicts: readonly Verdict[]): boolean {
  return verdicts.every(({ isMet }) => isMet !== false);
}

async function cleanUp(): Promise<void> {
  await stopAll();
  removeScratchDirs();
}

function print(text: string): void {
  // What an interrupted bench has measured so far is no result.
  if (isInterrupted) return;
  clearProgress();
  console.log(text);
}

for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const) {
  process.on(signal, () => {
    isInterrupted = true;
    // A second Ctrl-C finds the stopping under way and changes nothing.
    void cleanUp().finally(() => process.exit(code));
  });
}

try {
  process.exitCode = (await main()) ? 0 : 1;
} catch (error) {
  clearProgress();
  if (!isInterrupted) console.error((error as Error).message);
  process.exitCode = 2;
} finally {
  await cleanUp();
}
