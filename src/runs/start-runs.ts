import type { BlobStore } from "../blobs/blob-store.ts";
import type { Interpreter } from "../host/interpreter.ts";
import type { AppLimits } from "../host/limits/limits.ts";
import type { AppWalls } from "../host/walls/walls.ts";
import type { AddressRanges } from "../kit/ip-addresses.ts";
import { type Clock, steady } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import type { Seal } from "../kit/seal.ts";
import type { AppRetention } from "../model/app.ts";
import type { Owners } from "../nodes/owners.ts";
import type { Ownership } from "../nodes/ownership.ts";
import type { RunTarget } from "../replicas/pool.ts";
import type { StorageWatch } from "../store/upkeep/storage-watch.ts";
import type { Store } from "../store/store.ts";
import { Canceller } from "./cancel.ts";
import { ClaimRecorder } from "./claim-recorder.ts";
import { Dispatcher } from "./dispatcher.ts";
import { Executor } from "./execute.ts";
import { type FileContext, FileRuns, type FileRunsParts } from "./files/file-runs.ts";
import { Journal, LightRecorder } from "./journal.ts";
import { LargePayloads, PayloadPlace } from "./large-payloads.ts";
import { RunLookup } from "./lookup.ts";
import { PartReader, PartWriter } from "./transcript-parts.ts";
import { Submitter } from "./submit.ts";
import { Sweeper } from "./sweeper.ts";
import { Deliverer } from "./webhooks/deliverer.ts";
import { SigningSecrets } from "./webhooks/signing-secrets.ts";

/** How long a stop waits for a database that does not take the last records. */
const SETTLE_MS = 5_000;

export type RunsParts = {
  readonly store: Store;
  readonly seal: Seal;
  readonly log: Log;
  readonly clock: Clock;
  readonly webhookAllow: AddressRanges;
  /** Where runs of an app go now; null for an app that takes none. */
  readonly target: (appNumber: number) => RunTarget | null;
  /** This process, among those that share the database, and those that ended on its data directory. */
  readonly ownership: Ownership;
  /** Which apps are this service's; null where it is the only one. */
  readonly owners: Owners | null;
  /** Where a run goes that this version accepted. */
  readonly versionTarget: (appNumber: number, versionId: string) => Promise<RunTarget | null>;
  /** What each app wants kept. */
  readonly retentions: () => readonly AppRetention[];
  readonly reserve: Pick<StorageWatch, "isLow" | "refusal">;
  /** What file runs take from their apps. */
  readonly fileContext: FileContext;
  /** The service's own interpreter. */
  readonly python: Interpreter;
  /** What file runs live behind; null for nothing. */
  readonly walls: AppWalls | null;
  /** What file runs are held to; null for nothing. */
  readonly limits: AppLimits | null;
  readonly maxRuns: number;
  readonly maxStorageBytes: number;
  readonly maxLogBytes: number;
  readonly recordRetentionMs: number;
  readonly auditRetentionMs: number;
  readonly dataDir: string;
  readonly storage: FileRunsParts["storage"];
  /** Where large payloads lie; null where all lie in the database. */
  readonly payloadBlobs: BlobStore | null;
};

/** Builds and starts what runs need from their acceptance to their webhook. */
export async function startRuns(parts: RunsParts, life: Lifecycle) {
  const { store, seal, log, clock, webhookAllow, target, versionTarget, reserve, ownership, owners } = parts;
  const { owner, predecessors } = ownership;
  // Deliveries are due, and keys count, by a clock that cannot be set: a wrong date neither delays nor repeats one.
  const steadyClock = steady(clock);
  const isFirst = (): boolean => owners?.isFirst ?? true;
  const { payloadBlobs: blobs } = parts;
  const place = blobs && (await PayloadPlace.open(blobs, store));
  const large = await life.start(
    "large payloads",
    () => blobs && place && new LargePayloads({ blobs, place, store, clock, log, isFirst }),
    async (started) => await started?.stop(),
  );
  large?.start();
  const signingSecrets = new SigningSecrets({ store, seal, clock });
  const deliverer = await life.start(
    "deliverer",
    () =>
      new Deliverer({
        store,
        seal,
        secrets: signingSecrets,
        clock,
        steadyClock,
        log,
        large,
        allow: webhookAllow,
        owner,
      }),
    (started) => started.stop(),
  );
  const onDeliveries = (): void => deliverer.wake();
  const journal = await life.start(
    "journal",
    () => new Journal(store, log, clock, reserve),
    (started) => started.settle(SETTLE_MS),
  );
  const lightRecorder = await life.start(
    "ends of light runs",
    () => new LightRecorder(journal),
    (started) => started.settle(),
  );
  const onReleased = (appNumber: number): void => dispatcher.wake(appNumber);
  const recorder = await life.start(
    "ends of runs",
    () => new ClaimRecorder({ store, clock: steadyClock, log, large, onDeliveries, onReleased }),
    (started) => started.stop(),
  );
  // Stopped before the recorders: they wait for it, and only when it stops does it give up on a storage that is away.
  const partWriter = await life.start(
    "transcripts",
    () => new PartWriter(store, log, clock, reserve),
    (started) => started.stop(),
  );
  const partReader = new PartReader(store, clock);
  const executor = new Executor({ clock, store, partReader, partWriter }, lightRecorder);
  const lookup = new RunLookup({ executor, journal, store, partReader, large });
  const fileRuns = await life.start(
    "file runs",
    () =>
      new FileRuns({
        ...parts,
        python: parts.python.path,
        ownerId: owner,
        accept: (accepted, end) => submitter.accept(accepted, end),
        shortage: () => reserve.refusal,
        context: parts.fileContext,
      }),
    (started) => started.stop(),
  );
  const canceller = new Canceller({
    lookup,
    store,
    clock: steadyClock,
    onDeliveries,
    target,
    cancelFile: (runId) => fileRuns.cancel(runId),
  });
  const dispatcher = new Dispatcher({
    store,
    executor,
    recorder,
    clock,
    log,
    owner,
    predecessors,
    large,
    target,
    versionTarget,
    holderOf: (appNumber) => owners?.holderOf(appNumber) ?? null,
    mayClaim: (appNumber) => owners?.mayClaim(appNumber) ?? true,
    onRefused: () => void owners?.sync(),
    lookAfter: async (appNumbers) => {
      await owners?.lookAfter(appNumbers);
      await canceller.endOrphans(appNumbers);
    },
  });
  await dispatcher.start();
  deliverer.start();
  const sweeper = await life.start(
    "sweeper",
    () => new Sweeper({ ...parts, apps: parts.retentions, isFirst }),
    (started) => started.stop(),
  );
  sweeper.start();
  const submitter = await life.start(
    "submitter",
    () =>
      new Submitter({
        reserve,
        store,
        executor,
        dispatcher,
        recorder,
        lightRecorder,
        clock,
        steadyClock,
        large,
        log,
        owner,
      }),
    (started) => started.stop(),
  );
  await fileRuns.start();
  return {
    nodeId: owner,
    executor,
    journal,
    lightRecorder,
    recorder,
    lookup,
    canceller,
    submitter,
    dispatcher,
    deliverer,
    steadyClock,
    signingSecrets,
    sweeper,
    fileRuns,
  };
}
