import type { BlobStore } from "../blobs/blob-store.ts";
import type { Interpreter } from "../host/interpreter.ts";
import type { AddressRanges } from "../kit/ip-addresses.ts";
import { steady } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Seal } from "../kit/seal.ts";
import type { Run } from "../model/run.ts";
import type { Owners } from "../nodes/owners.ts";
import type { Ownership } from "../nodes/ownership.ts";
import type { StorageWatch } from "../store/upkeep/storage-watch.ts";
import { BulkWorker } from "./bulk/bulk-worker.ts";
import { BatchFeeder } from "./batches/feeder.ts";
import { Canceller } from "./cancel.ts";
import { CheckpointWriter } from "./checkpoint-writer.ts";
import { ClaimRecorder, type ClaimRecorderParts } from "./claim-recorder.ts";
import { Dispatcher, type DispatcherParts } from "./dispatcher.ts";
import { Executor } from "./execute.ts";
import { LateRuns } from "./late-runs.ts";
import { type FileContext, FileRuns, type FileRunsParts } from "./files/file-runs.ts";
import { Journal, LightRecorder } from "./journal.ts";
import { Scheduler } from "./schedules/scheduler.ts";
import { LargePayloads, openPayloadPlace } from "./large-payloads.ts";
import { RunLookup } from "./lookup.ts";
import { AccountWeights } from "./account-weights.ts";
import { QueueStates } from "./queue-states.ts";
import { ProjectQuotas } from "./quotas/project-quotas.ts";
import { QuotaKeeper } from "./quotas/quota-keeper.ts";
import { RunTally } from "./run-tally.ts";
import { PartReader, PartWriter } from "./transcript-parts.ts";
import type { Tracer } from "./traces/tracer.ts";
import { QueueHistory } from "./queue/history.ts";
import { type OutlookParts, QueueOutlook } from "./queue/outlook.ts";
import { QueuePaces } from "./queue/paces.ts";
import { QueueWatch } from "./queue/watch.ts";
import { Submitter } from "./submit.ts";
import { Sweeper, type SweeperParts } from "./sweeper.ts";
import { Deliverer } from "./webhooks/deliverer.ts";
import { SigningSecrets } from "./webhooks/signing-secrets.ts";

/** How long a stop waits for a database that does not take the last records. */
const SETTLE_MS = 5_000;

type RunsParts = Omit<SweeperParts, "isFirst"> &
  Pick<DispatcherParts, "target" | "versionTarget"> &
  Pick<FileRunsParts, "dataDir" | "storage" | "walls" | "limits"> & {
    readonly seal: Seal;
    readonly tracer: Tracer;
    /** How many GPUs a replica on this machine holds; null: as many as its app asks for. */
    readonly gpusOf: (replicaId: string) => number | null;
    /** Null if metrics are not exported to OpenTelemetry. */
    readonly metricExport: object | null;
    readonly webhookAllow: AddressRanges;
    readonly ownership: Ownership;
    /** Null if this is the only service. */
    readonly owners: Owners | null;
    /** Null for an app that is not served here. */
    readonly projectOf: (appNumber: number) => string | null;
    /** Whether the app is known to have that function. */
    readonly hasFunction: (appNumber: number, name: string) => boolean;
    readonly reserve: Pick<StorageWatch, "isLow" | "refusal">;
    readonly fileContext: FileContext;
    readonly python: Interpreter;
    /** Null if all payloads are in the database. */
    readonly payloadBlobs: BlobStore | null;
  };

/** Builds and starts what runs need from their acceptance to their webhook. */
export async function startRuns(parts: RunsParts, life: Lifecycle) {
  const { store, log, clock, target, projectOf, reserve, owners } = parts;
  const { owner, predecessors } = parts.ownership;
  // Deliveries are due, and keys expire, by a clock that cannot be set: a wrong date delays and repeats none.
  const steadyClock = steady(clock);
  const isFirst = (): boolean => owners?.isFirst ?? true;
  const { payloadBlobs: blobs } = parts;
  const place = blobs && (await openPayloadPlace(blobs, store));
  const large = await life.begin(
    "large payloads",
    () => blobs && place && new LargePayloads({ ...parts, blobs, place, isFirst }),
  );
  large?.start();
  const basics = { ...parts, steadyClock, large, owner };
  const signingSecrets = new SigningSecrets(parts);
  const deliverer = await life.begin(
    "deliverer",
    () => new Deliverer({ ...basics, secrets: signingSecrets, allow: parts.webhookAllow }),
  );
  const onDeliveries = (): void => deliverer.wake();
  const serves = (appNumber: number): boolean => target(appNumber) !== null;
  const tally = new RunTally(parts.metricExport !== null, { serves, hasFunction: parts.hasFunction });
  const journal = await life.start(
    "journal",
    () => new Journal(store, log, clock, reserve),
    (started) => started.settle(SETTLE_MS),
  );
  const lightRecorder = await life.start(
    "ends of light runs",
    () => new LightRecorder(journal, tally),
    (started) => started.settle(),
  );
  const onReleased: ClaimRecorderParts["onReleased"] = (...released) => dispatcher.released(...released);
  const recorder = await life.begin(
    "ends of runs",
    () => new ClaimRecorder({ store, clock: steadyClock, log, large, onDeliveries, onReleased, tally }),
  );
  // Stopped before the recorders, which wait for it: only when it stops does it give up on storage that does not answer.
  const partWriter = await life.begin("transcripts", () => new PartWriter(store, log, clock, reserve));
  const checkpointWriter = await life.begin(
    "checkpoints",
    () => new CheckpointWriter({ store, clock: steadyClock, log }),
  );
  const partReader = new PartReader(store, clock);
  const { tracer, gpusOf } = parts;
  const runParts = { clock, store, partReader, partWriter, checkpointWriter, tracer, gpusOf };
  const executor = new Executor(runParts, lightRecorder, recorder);
  const paces = new QueuePaces({
    clock: steadyClock,
    target,
    isPaused: (appNumber) => queueStates.isPaused(appNumber),
  });
  const turnOf: OutlookParts["turnOf"] = (appNumber) => dispatcher.turnOf(appNumber);
  const outlook = new QueueOutlook({ store, clock: steadyClock, paces, target, turnOf });
  const queueWatch = await life.start(
    "watch over queues",
    () => new QueueWatch({ clock, steadyClock, log, paces, outlook }),
    (started) => started.stop(),
  );
  const queueHistory = await life.start(
    "history of queues",
    () => new QueueHistory({ store, clock, log, paces, serves }),
    (started) => started.stop(),
  );
  const lookup = new RunLookup({ executor, journal, store, partReader, large, outlook });
  const fileRuns = await life.begin(
    "file runs",
    () =>
      new FileRuns({
        ...basics,
        python: parts.python.path,
        accept: (accepted, end) => submitter.accept(accepted, end),
        context: parts.fileContext,
      }),
  );
  const cancelFile = (runId: string) => fileRuns.cancel(runId);
  const onDropped = (run: Run): void => {
    const of = target(run.appNumber);
    if (of) dispatcher.admit({ target: of, terms: run.terms });
  };
  const canceller = new Canceller({
    lookup,
    store,
    clock: steadyClock,
    onDeliveries,
    onDropped,
    target,
    cancelFile,
    tally,
  });
  const queueStates = new QueueStates({
    store,
    onPaused: (appNumber) => executor.putBack(appNumber),
    onResumed: (appNumber) => target(appNumber) && dispatcher.wake(appNumber),
  });
  await queueStates.start();
  const accountWeights = new AccountWeights(store);
  await accountWeights.start();
  const projectQuotas = new ProjectQuotas(store);
  await projectQuotas.start();
  const nodeId = owners ? owner : null;
  const quotas = await life.start(
    "quotas",
    () => new QuotaKeeper({ store, clock, log, executor, projects: projectQuotas, nodeId }),
    (started) => started.stop(),
  );
  const dispatcher: Dispatcher = new Dispatcher({
    ...basics,
    isPaused: (appNumber) => queueStates.isPaused(appNumber),
    weights: (appNumber) => accountWeights.of(projectOf(appNumber) ?? ""),
    clock: steadyClock,
    executor,
    recorder,
    predecessors,
    onTaken: (...taken) => paces.noteTaken(...taken),
    endOrphans: (appNumbers) => canceller.endOrphans(appNumbers),
  });
  await dispatcher.start();
  await life.start(
    "ends of late runs",
    () => new LateRuns({ store, clock: steadyClock, log, canceller }),
    (started) => started.stop(),
  );
  deliverer.start();
  const sweeper = await life.begin("sweeper", () => new Sweeper({ ...parts, isFirst }));
  sweeper.start();
  const submitter = await life.begin(
    "submitter",
    () =>
      new Submitter({
        ...basics,
        executor,
        dispatcher,
        recorder,
        lightRecorder,
        isDraining: (appNumber) => queueStates.isDraining(appNumber),
      }),
  );
  await fileRuns.start();
  const scheduler = await life.begin(
    "schedules",
    () =>
      new Scheduler({
        ...parts,
        owner,
        wake: (appNumber) => target(appNumber) && dispatcher.wake(appNumber),
        cancel: (run) => canceller.cancel(run, () => true),
      }),
  );
  scheduler.start();
  const bulkWorker = await life.begin(
    "bulk jobs",
    () =>
      new BulkWorker({
        store,
        clock: steadyClock,
        log,
        owner,
        reserve,
        isDraining: (appNumber) => queueStates.isDraining(appNumber),
        serves,
        wake: (appNumber) => target(appNumber) && dispatcher.wake(appNumber),
        cancel: (run) => canceller.cancel(run, () => true),
      }),
  );
  bulkWorker.start();
  const batchFeeder = await life.begin(
    "batches",
    () =>
      new BatchFeeder({
        ...basics,
        wake: (appNumber) => dispatcher.wake(appNumber),
        cancel: (run) => canceller.cancel(run, () => true),
        onDeliveries,
        isDraining: (appNumber) => queueStates.isDraining(appNumber),
      }),
  );
  batchFeeder.start();
  /** An app was deleted: its queued runs end, and what is stored of it is removed. */
  const endRunsOf = (appNumber: number): void => {
    dispatcher.wake(appNumber);
    batchFeeder.wake();
    tally.forget(appNumber);
    sweeper.purge(appNumber);
  };
  return {
    nodeId: owner,
    executor,
    journal,
    tally,
    lightRecorder,
    recorder,
    lookup,
    queueWatch,
    queueHistory,
    canceller,
    submitter,
    dispatcher,
    queueStates,
    accountWeights,
    projectQuotas,
    quotas,
    scheduler,
    bulkWorker,
    batchFeeder,
    partReader,
    large,
    deliverer,
    steadyClock,
    signingSecrets,
    tracer: parts.tracer,
    endRunsOf,
    fileRuns,
  };
}
