import { StorageFolders } from "../../src/host/storage/folders.ts";
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { loadAppConfig } from "../../src/config/app-config.ts";
import type { ScalingConfig } from "../../src/model/app-config.ts";
import type { Outcome } from "../../src/model/outcome.ts";
import { type Clock, systemClock } from "../../src/kit/clock.ts";
import { Call } from "../../src/replicas/call.ts";
import type { Lane } from "../../src/replicas/slots/capacity.ts";
import type { Exit } from "../../src/engines/engine.ts";
import { Home } from "../../src/engines/home.ts";
import { Pool } from "../../src/replicas/pool.ts";
import { processEngine } from "../../src/engines/local/engine.ts";
import { Ports } from "../../src/engines/server/ports.ts";
import { Seats } from "../../src/replicas/seats.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import type { FleetReplica } from "../../src/replicas/fleet-events.ts";
import { HandClock } from "./clocks.ts";
import { assertNothingLeft } from "./leak-check.ts";
import { type TestApp, writeApp } from "./service.ts";
import { OPEN_NETWORK } from "./walls/open-network.ts";

/** A call that a test made, and how it ended. */
export type TestCall = { readonly call: Call; readonly ended: Promise<Outcome> };

/** A pool of real Python replicas without the rest of the service. */
export class TestPool {
  readonly pool: Pool;
  readonly scaling: ScalingConfig;
  /** The app's working directory. */
  readonly bundleDir: string;
  /** How replicas ended, in order. */
  readonly exits: string[];
  /** How a template broke the protocol, and errors of our own. */
  readonly faults: string[];

  constructor(pool: Pool, scaling: ScalingConfig, bundleDir: string, exits: string[], faults: string[]) {
    this.pool = pool;
    this.scaling = scaling;
    this.bundleDir = bundleDir;
    this.exits = exits;
    this.faults = faults;
  }

  /** The replicas that are ready now. */
  get ready(): FleetReplica<Call>[] {
    return [...this.pool.replicas].filter(({ state }) => state === "ready");
  }

  /** Whether the app has left a file of that name in its working directory. */
  has(name: string): boolean {
    return existsSync(path.join(this.bundleDir, name));
  }

  /** What the app wrote into a file of its working directory. */
  text(name: string): string {
    return readFileSync(path.join(this.bundleDir, name), "utf8");
  }

  /** Leaves a file in the app's working directory: what calls wait for. */
  leave(name: string): void {
    writeFileSync(path.join(this.bundleDir, name), "");
  }

  submit(
    functionName: string,
    args: object,
    onEnd: (outcome: Outcome) => void = () => {},
    lane: Lane = "caller",
  ): TestCall {
    const { promise: ended, resolve } = Promise.withResolvers<Outcome>();
    const body = Buffer.from(JSON.stringify(args));
    const reader = {
      onEnd: (outcome: Outcome) => {
        onEnd(outcome);
        resolve(outcome);
      },
    };
    const call = new Call(randomUUID(), functionName, body, reader, lane);
    this.pool.slots.submit(call);
    return { call, ended };
  }

  /** Submits a call of the backlog. */
  backlog(functionName: string, args: object, onEnd?: (outcome: Outcome) => void): TestCall {
    return this.submit(functionName, args, onEnd, "backlog");
  }

  /** The value a call returns; throws when it did not return. */
  async value(functionName: string, args: object): Promise<unknown> {
    return returned(await this.submit(functionName, args).ended);
  }
}

/** What a call returned; throws when it ended otherwise. */
export function returned(outcome: Outcome): unknown {
  if (outcome.kind !== "returned") throw new Error(`it ended as ${JSON.stringify(outcome)}`);
  return JSON.parse(outcome.json.toString());
}

/** Starts a pool for one app; everything of it is ended, and searched for leaks, when the test is over. */
export async function testPool(app: TestApp, clock: Clock = systemClock): Promise<TestPool> {
  const { pool, close } = await openPool(app, clock);
  onTestFinished(close);
  return pool;
}

/** One pool for all tests of a block that leave nothing behind in it; the answer gives it once it is up. */
export function sharedPool(app: TestApp, clock: Clock = systemClock): () => TestPool {
  let opened: Opened | undefined;
  beforeAll(async () => {
    opened = await openPool(app, clock);
  });
  afterAll(async () => await opened?.close());
  return () => {
    if (!opened) throw new Error("the pool is not up yet");
    return opened.pool;
  };
}

type Opened = { readonly pool: TestPool; readonly close: () => Promise<void> };

async function openPool(app: TestApp, clock: Clock): Promise<Opened> {
  const directory = await mkdtemp(path.join(tmpdir(), "millrace-pool-"));
  const bundleDir = await writeApp(path.join(directory, "app"), "app", app);
  const { config } = loadAppConfig(bundleDir, { host: { cpuCount: availableParallelism() } });
  const python = await findInterpreter(process.env["MILLRACE_PYTHON"] ?? "python3");
  const home = await Home.open(path.join(directory, "run"));
  const workload = {
    version: {
      id: randomUUID(),
      appNumber: 1,
      bundleBlob: null,
      environmentBlob: null,
      environmentTag: null,
    },
    projectId: "p-test",
    bundle: path.relative(directory, bundleDir),
    environment: null,
    python: null,
    variables: {},
    concurrency: config.scaling.replicaConcurrency,
    batching: config.batching,
    ignoreExtra: false,
    maxResultBytes: config.limits.maxResultBytes,
    maxChunkBytes: config.limits.maxChunkBytes,
    mayFork: config.deployment.fork === "auto",
    limits: { memoryBytes: null, cpus: null, cpuShare: config.hardware.cpu },
    network: config.deployment.network,
    containerRuntime: null,
    unixSockets: config.deployment.unixSockets,
    gpus: null,
    graceMs: config.scaling.responseGracePeriodSeconds * 1000,
    server: config.customRuntime,
  };
  const keepMs = config.scaling.templateKeepSeconds * 1000;
  const exits: string[] = [];
  const faults: string[] = [];
  const storage = new StorageFolders(directory);
  const engine = processEngine({
    python: python.path,
    dataDir: directory,
    level: null,
    network: OPEN_NETWORK,
    storage,
    ports: new Ports(),
    clock,
  });
  const seats = new Seats(engine, home, workload, keepMs, {
    onLog: () => {},
    onFault: (fault) => faults.push(fault),
    onSilence: (silence) => faults.push(silence),
    onError: (error) => faults.push(String(error)),
  });
  const events = {
    onLog: () => {},
    onFunctions: () => {},
    onReplicaGone: (_: string, exit: Exit) => exits.push(exit.detail),
    onError: (error: unknown) => faults.push(String(error)),
  };
  const pool = new Pool(config, { seats, home, clock, events });
  const close = async (): Promise<void> => {
    const closing = pool.close({ kind: "refused", code: "draining" });
    await (clock instanceof HandClock ? clock.passDuring(closing) : closing);
    await home.close();
    await assertNothingLeft(directory);
    rmSync(directory, { recursive: true, force: true });
  };
  return { pool: new TestPool(pool, config.scaling, bundleDir, exits, faults), close };
}
