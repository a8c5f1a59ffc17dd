import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { uuidv7 } from "../../support/ids.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { QueueConfig, ScalingConfig } from "../../../src/model/app-config.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import type { Run } from "../../../src/model/run.ts";
import { termsOf, type Wishes } from "../../../src/model/terms.ts";
import type { Call } from "../../../src/replicas/call.ts";
import { CheckpointWriter } from "../../../src/runs/checkpoint-writer.ts";
import { ClaimRecorder } from "../../../src/runs/claim-recorder.ts";
import { Dispatcher } from "../../../src/runs/dispatcher.ts";
import { Executor } from "../../../src/runs/execute.ts";
import { Journal, LightRecorder } from "../../../src/runs/journal.ts";
import type { LargePayloads } from "../../../src/runs/large-payloads.ts";
import type { RunRequest } from "../../../src/runs/live-run.ts";
import type { RunTarget } from "../../../src/replicas/pool.ts";
import { PartReader, PartWriter } from "../../../src/runs/transcript-parts.ts";
import { RunTally } from "../../../src/runs/run-tally.ts";
import { Submitter } from "../../../src/runs/submit.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { emptyOutlook } from "../../support/no-queue.ts";
import { SkippingClock } from "../../support/clocks.ts";

/** The time of all parts; what would be tried again in a second is, when a test skips that. */
export const CLOCK = new SkippingClock();

const UNLIMITED: QueueConfig = {
  concurrencyLimit: null,
  concurrencyKeyLimit: null,
  rateLimit: null,
  concurrencyKeyRateLimit: null,
  maxBacklog: null,
};
const NO_WISHES: Wishes = {
  priority: 0,
  delay: null,
  ttlMs: null,
  timeoutMs: null,
  maxAttempts: null,
  tags: [],
  concurrencyKey: null,
  fairnessKey: null,
};

/** A pool whose room a test decides, and whose calls it ends. */
export class HandPool {
  room = 1;
  readonly calls: Call[] = [];

  get backlogRoom(): number {
    return Math.max(0, this.room - this.calls.filter(({ hasEnded }) => !hasEnded).length);
  }

  /** The arguments of the calls that came, in order. */
  get came(): string[] {
    return this.calls.map(({ body }) => String(body));
  }

  readonly outlook = emptyOutlook;

  submit(call: Call): void {
    call.enqueuedAt = CLOCK.monotonic();
    call.handedAt = call.enqueuedAt;
    this.calls.push(call);
  }

  abandon(call: Call, outcome: Outcome): void {
    call.end(outcome);
  }

  /** Ends the oldest call that has not ended. */
  finish(outcome: Outcome = { kind: "returned", json: Buffer.from("1"), status: 200, runMs: 1 }): void {
    this.calls.find(({ hasEnded }) => !hasEnded)?.end(outcome);
  }
}

/** The parts of async runs on a real store, with a pool led by hand. */
export class ByHand {
  readonly store: Store;
  readonly pool = new HandPool();
  readonly target: RunTarget;
  /** Other versions of the app, by id. */
  readonly earlier = new Map<string, RunTarget>();
  /** How often one of them was looked for; a test may have that fail. */
  looks = 0;
  lookFor: (() => Promise<null>) | null = null;
  /** Why the disk has no room; null while it has. */
  readonly reserve: { refusal: string | null } = { refusal: null };
  /** What the app's queue does not do. */
  isPaused = false;
  isDraining = false;
  /** The app is deleted. */
  isGone = false;
  /** Numbers of apps whose queued runs were to be ended. */
  readonly orphaned: number[] = [];
  readonly recorder: ClaimRecorder;
  readonly dispatcher: Dispatcher;
  readonly submitter: Submitter;
  readonly executor: Executor;

  constructor(
    store: Store,
    appNumber: number,
    scaling: Partial<ScalingConfig>,
    owner = "first",
    large: LargePayloads | null = null,
    queue: Partial<QueueConfig> | null = null,
  ) {
    const { config } = readAppConfig({ host: { cpuCount: 2 } });
    this.store = store;
    this.target = {
      projectId: "p-00000000",
      appName: "app",
      appNumber,
      versionId: uuidv7(0),
      slots: this.pool,
      config: {
        ...config,
        scaling: { ...config.scaling, maxReplicas: 1, ...scaling },
        ...(queue && { queue: { ...UNLIMITED, ...queue } }),
      },
      hidden: { input: false, result: false },
    };
    const log = createLog("silent");
    const clock = CLOCK;
    const partWriter = new PartWriter(store, log, clock);
    const tally = new RunTally();
    const lightRecorder = new LightRecorder(new Journal(store, log, clock), tally);
    const onReleased = (of: number, dueAt: number | null): void => this.dispatcher.released(of, dueAt);
    this.recorder = new ClaimRecorder({
      store,
      clock,
      log,
      large,
      onDeliveries: () => undefined,
      onReleased,
      tally,
    });
    const partReader = new PartReader(store, clock);
    const checkpointWriter = new CheckpointWriter({ store, clock, log });
    const runParts = { clock, store, partReader, partWriter, checkpointWriter };
    this.executor = new Executor(runParts, lightRecorder, this.recorder);
    const basics = { store, partWriter, clock, log, owner, large };
    const parts = { ...basics, executor: this.executor, recorder: this.recorder };
    this.dispatcher = new Dispatcher({
      ...parts,
      predecessors: [],
      target: (number) => (number === appNumber && !this.isGone ? this.target : null),
      versionTarget: async (_, versionId) => {
        this.looks += 1;
        return await (this.lookFor ? this.lookFor() : (this.earlier.get(versionId) ?? null));
      },
      isPaused: () => this.isPaused,
      owners: null,
      endOrphans: async (numbers) => void this.orphaned.push(...numbers),
    });
    const { reserve } = this;
    const { dispatcher } = this;
    this.submitter = new Submitter({
      ...parts,
      steadyClock: clock,
      dispatcher,
      lightRecorder,
      reserve,
      isDraining: () => this.isDraining,
    });
  }

  /** What another service would have on the same store. */
  next(): ByHand {
    const { appNumber, config } = this.target;
    return new ByHand(this.store, appNumber, {}, "next", null, config.queue ?? null);
  }

  /** The stored record of a run. */
  async find(id: string): Promise<Run | null> {
    return await this.store.runs.find({ appNumber: this.target.appNumber, id });
  }

  request(body: string, asked: Partial<Wishes> | null = null): RunRequest {
    const id = uuidv7(Date.now());
    const webhook = null;
    return {
      id,
      target: this.target,
      functionName: "run",
      body: Buffer.from(body),
      isBare: false,
      ip: null,
      caller: null,
      webhook,
      terms: asked && termsOf({ ...NO_WISHES, ...asked }, CLOCK.now()),
    };
  }
}

/** Builds the parts on one store for all tests of a file; `around` may stand between them and it. */
export function partsByHand() {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-unit-"));
  let store: Store | undefined;
  let apps = 0;
  // Once, before the clock of any test runs: its threads take their time on a busy machine.
  beforeAll(async () => {
    store = await openStore({ databaseUrl: null, dataDir });
  });
  afterAll(async () => {
    await store?.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return (
    around: (store: Store) => Store = (given) => given,
    scaling: Partial<ScalingConfig> = {},
    largeOn: (store: Store) => LargePayloads | null = () => null,
    queue: Partial<QueueConfig> | null = null,
  ): ByHand => {
    if (!store) throw new Error("the store is not open yet");
    apps += 1;
    const parts = new ByHand(around(store), apps, scaling, "first", largeOn(store), queue);
    onTestFinished(async () => {
      parts.dispatcher.stop();
      await parts.recorder.stop();
    });
    return parts;
  };
}
