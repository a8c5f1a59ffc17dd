import { rm } from "node:fs/promises";
import type { AppLogLine, LiveApp } from "./apps/versions/open-version.ts";
import { appWork, followSecrets, whyAbsent } from "./apps/node-work.ts";
import { ReplicaMeter } from "./apps/replica-meter.ts";
import { startApps, startDeploys } from "./apps/start-apps.ts";
import { storageLimits, storageReport } from "./apps/storage-report.ts";
import { startBlobs } from "./blobs/start-blobs.ts";
import { listenerLimits } from "./config/listener-limits.ts";
import { VERSION } from "./config/package-files.ts";
import type { Settings } from "./config/setting-keys.ts";
import { Authenticator } from "./gateway/authenticate.ts";
import { Gateway } from "./gateway/server.ts";
import {
  followIdentity,
  identityParts,
  type OperatorRequests,
  operatorRequests,
} from "./identity/identity-parts.ts";
import type { Hash } from "./identity/passwords.ts";
import { openInstallation } from "./identity/installation.ts";
import { type Owner } from "./identity/owner.ts";
import { openMailer } from "./identity/mailer.ts";
import type { Tokens } from "./identity/tokens.ts";
import { AddressRanges } from "./kit/ip-addresses.ts";
import { type Clock, systemClock, withTimeout } from "./kit/clock.ts";
import { collectWhenIdle } from "./kit/memory.ts";
import { LateValue, Lifecycle } from "./kit/lifecycle.ts";
import type { Log } from "./kit/log.ts";
import { ExecutableCheck } from "./kit/files.ts";
import { makeRuntimeDir, runtimeDir } from "./kit/runtime-dir.ts";
import { liveStatusesBy } from "./management/apps/apps.ts";
import { openControlSocket } from "./management/control-socket.ts";
import { listenerUrl, warnOfExposure } from "./management/api/addresses.ts";
import { nodeGpus, tellGpus } from "./management/installation/hardware.ts";
import { Management } from "./management/server.ts";
import { ownDetails } from "./nodes/own-node.ts";
import type { RunKey } from "./model/run.ts";
import type { Others } from "./nodes/forward/app-locator.ts";
import type { PeerRoutes } from "./nodes/peer-listener.ts";
import { Home } from "./engines/home.ts";
import type { Engine } from "./engines/engine.ts";
import type { ProcessHost } from "./engines/local/host.ts";
import type { SeatPlace } from "./engines/agent/seat-place.ts";
import { startEngine } from "./engines/start-engine.ts";
import { StorageHelper } from "./engines/programs/storage-helper.ts";
import { GpuHistory } from "./host/gpus/history.ts";
import type { GpuSource } from "./host/gpus/source.ts";
import { findHost, startHost } from "./host/start-host.ts";
import { hasNvidia } from "./host/walls/probes.ts";
import { closesGpus } from "./host/walls/walls.ts";
import { requireSharedVolumes } from "./host/storage/place-volumes.ts";
import { networkReport } from "./host/walls/network.ts";
import { type JoinedNodes, joinNodes } from "./nodes/join-nodes.ts";
import { Ownership } from "./nodes/ownership.ts";
import { startSeatHome } from "./nodes/seat-home.ts";
import { followSigningSecrets } from "./runs/webhooks/signing-secrets.ts";
import { startRuns } from "./runs/start-runs.ts";
import { startTracer } from "./runs/traces/tracer.ts";
import type { AppHolder } from "./store/nodes/app-owners.ts";
import { copyDatabase, inspectionOf } from "./store/upkeep/whole-database.ts";
import { explainStart } from "./store/upkeep/start-failure.ts";
import { watchStorage } from "./store/upkeep/storage-watch.ts";
import type { Store } from "./store/store.ts";

/** A running service. */
export type Service = {
  readonly apiUrl: string;
  readonly baseUrl: string;
  readonly owner: Owner;
  /** Makes the first person of the dashboard; null when there is one. */
  readonly setupLink: string | null;
  readonly store: Store;
  readonly tokens: Tokens;
  /** Deploys a folder into the default project; its first call starts it. */
  install(folder: string): Promise<LiveApp>;
  /** Resolves when every record of an ended run is stored. */
  settle(): Promise<void>;
  /** Takes no new work, waits for runs in progress (the settings' grace if none is given), and stops everything. */
  stop(graceMs?: number): Promise<void>;
  /** Handles requests that other nodes forward. */
  readonly peerRoutes: Omit<PeerRoutes, "own">;
  /** Requests that were left without an answer at the end: a bug, which tests look for. */
  unanswered(): number;
};

export type ServiceOptions = {
  readonly log: Log;
  /** Lines that apps print. */
  readonly onAppLog?: (line: AppLogLine) => void;
  /** The built dashboard and guide, if not beside the code. */
  readonly webDir?: string;
  readonly guideDir?: string;
  // For tests: in place of the real ones. Threads and Python have clocks of their own.
  readonly aroundStore?: (store: Store) => Store;
  readonly engine?: (host: ProcessHost) => Engine;
  readonly seats?: { readonly place: SeatPlace; readonly graceMs?: number };
  readonly others?: Others;
  readonly gpus?: GpuSource;
  readonly hashPassword?: Hash;
  readonly clock?: Clock;
};

/** Answers one request of the operator while no service runs on the directory. */
export async function askInstallation<T>(
  settings: Settings,
  ask: (requests: OperatorRequests) => T,
): Promise<Awaited<T>> {
  const { host, dataDir } = settings;
  const clock = systemClock;
  const life = new Lifecycle();
  try {
    const installation = await openInstallation(settings, clock, life);
    const apiUrl = settings.publicApiUrl ?? listenerUrl(host, settings.apiPort);
    const baseUrl = settings.publicBaseUrl ?? listenerUrl(host, settings.basePort);
    const identity = identityParts({ ...installation, post: null }, clock);
    return await ask(operatorRequests({ ...installation, ...identity, dataDir, apiUrl, baseUrl, clock }));
  } catch (error) {
    throw explainStart(error, settings);
  } finally {
    await life.stop();
  }
}

/** Builds every part from the settings and starts them in order; a failure stops what has started. */
export async function startService(settings: Settings, options: ServiceOptions): Promise<Service> {
  const life = new Lifecycle();
  try {
    return await start(settings, options, life);
  } catch (error) {
    await life.stop();
    throw explainStart(error, settings);
  }
}

async function start(settings: Settings, options: ServiceOptions, life: Lifecycle): Promise<Service> {
  const { log, onAppLog, aroundStore, clock = systemClock } = options;
  const { host, dataDir } = settings;
  const graceMs = new LateValue("grace of the stop", settings.shutdownGraceMs);
  const managementPort = new LateValue("port of the management API", settings.basePort);
  const apiPort = new LateValue("port of the gateway", settings.apiPort);
  const joined = new LateValue<JoinedNodes | null>("other nodes", null);
  const endRunsOf = new LateValue<(appNumber: number) => void>("the end of an app's runs");
  const found = await findHost(settings, () => managementPort.value);
  const { python, isolated, level, network, walls } = found;
  const installation = await openInstallation(settings, clock, life, { aroundStore, log });
  const { store, seal, tokens, owner } = installation;
  const basics = { store, seal, clock, log };
  const sockets = runtimeDir(dataDir);
  await life.start(
    "runtime directory",
    () => makeRuntimeDir(sockets),
    () => rm(sockets, { recursive: true, force: true }),
  );
  const home = await life.start(
    "replicas' home",
    () => Home.open(sockets, clock),
    (opened) => opened.close(),
  );
  const reserve = await watchStorage(settings, store, { clock, log }, life);
  const machine = await startHost(found, settings, { clock, log, gpus: options.gpus }, life);
  const { limits, storage, containers } = machine;
  const helper =
    level === "uid"
      ? new StorageHelper({ dataDir, python: python.path, folders: storage, home, clock })
      : null;
  const { blobs, payloadBlobs } = await startBlobs(settings, store.kind, clock, life);
  const images = { containers, baseImage: settings.baseImage };
  const ownership = new Ownership(dataDir);
  const seatHome = () => startSeatHome({ ...settings, ...basics, ownership, node: () => joined.value }, life);
  const gpusOfOtherNodes = () => joined.value?.gpusOfOtherNodes() ?? [];
  const { engine, seats, reached, held, leaveSeats, builds, grants } = await startEngine(
    { ...options, ...found, ...machine, settings, blobs, home, seatHome, gpusOfOtherNodes, clock },
    life,
  );
  const gpuGrants = () => grants?.broker.use() ?? [];
  const history = await life.start(
    "history of GPUs",
    () => new GpuHistory({ source: machine.gpus, grants: gpuGrants, clock }),
    (started) => started.close(),
  );
  const gpus = {
    source: machine.gpus,
    grants: gpuGrants,
    evictions: () => grants?.broker.evictions() ?? [],
    history,
  };
  const details = ownDetails(settings, clock.now(), {
    reached,
    managementPort: () => managementPort.value,
    gpus: () => grants?.current().gpus ?? [],
  });
  const requireVolumes = (ids: readonly string[]): void => requireSharedVolumes(settings, ids);
  const gpusOf = (replicaId: string): number | null => grants?.broker.heldBy(replicaId) ?? null;
  const node = await joinNodes(
    { ...settings, ...basics, ownership, details, blobs, requireVolumes, network },
    life,
  );
  joined.set(node);
  const owners = node?.owners ?? null;
  const others = options.others ?? node?.others ?? null;
  const holderOf = (appNumber: number): AppHolder | null => owners?.holderOf(appNumber) ?? null;
  /** What apps, runs and deploys all get. */
  const common = {
    ...basics,
    dataDir,
    storage,
    reserve,
    python,
    walls,
    limits,
    // Nothing is known here of the GPUs of a cluster.
    ...(settings.engine === "process" && {
      gpus: { current: () => machine.gpus.current(), ofOtherNodes: gpusOfOtherNodes },
    }),
  };
  const onRemoved = (appNumber: number): void => endRunsOf.value(appNumber);
  const apps = await startApps(
    {
      ...common,
      maxLogBytes: settings.maxLogBytes,
      maxScratchBytes: settings.maxScratchBytes,
      images,
      blobs,
      holderOf,
      builds,
      engine,
      grants,
      home,
      onAppLog,
      onRemoved,
    },
    life,
  );
  const { catalog } = apps;
  await life.start(
    "usage of replicas",
    () => new ReplicaMeter({ ...basics, catalog, gpusOf }),
    (started) => started.stop(),
  );
  const webhookAllow = new AddressRanges(settings.webhookAllow);
  const tracer = await startTracer({ settings: settings.traces, nodeId: ownership.owner, clock, log }, life);
  const runs = await startRuns(
    {
      ...settings,
      ...common,
      tracer,
      gpusOf,
      payloadBlobs,
      ownership,
      owners,
      fileContext: apps.fileContext,
      webhookAllow,
      target: (appNumber) => catalog.byNumber(appNumber)?.target ?? null,
      hasFunction: (appNumber, name) => catalog.hasFunction(appNumber, name),
      projectOf: (appNumber) => catalog.byNumber(appNumber)?.app.projectId ?? null,
      versionTarget: (appNumber, id) => catalog.versionTarget(appNumber, id),
      retentions: () => catalog.retentions(),
    },
    life,
  );
  endRunsOf.set(runs.endRunsOf);
  const deploys = await startDeploys(
    {
      ...common,
      ...apps,
      maxUploadBytes: settings.maxUploadBytes,
      images,
      owners,
      helper,
      network: held.network,
    },
    life,
  );
  const { deployer } = deploys;
  // From the settings or the listener, never from a request: a caller must not choose where a link in a mail leads.
  const ownUrl = (): string => settings.publicBaseUrl ?? listenerUrl(host, managementPort.value);
  const mailer = await life.begin("mail", () => openMailer(settings, { clock, log }));
  const identity = identityParts(
    { ...installation, post: mailer && { mailer, baseUrl: ownUrl }, hashPassword: options.hashPassword },
    clock,
  );
  const listening = listenerLimits(settings, log);
  const management = await life.start(
    "management API",
    () =>
      Management.listen({
        ...options,
        ...settings,
        ...installation,
        ...identity,
        ...runs,
        ...apps,
        ...deploys,
        ...seats,
        port: settings.basePort,
        limits: listening.management,
        projectId: owner.projectId,
        interpreter: new ExecutableCheck(python.path, clock),
        isolated,
        enforcement: held.enforcement,
        build: { version: VERSION, python: python.version },
        network: networkReport(network),
        liveStatuses: liveStatusesBy(node, catalog),
        gpus: { ...gpus, ofOthers: async (withHistory) => (await node?.askOthersForGpus(withHistory)) ?? [] },
        ownNode: () => ({ id: runs.nodeId, url: node?.url ?? null, details: details(), ...catalog.load() }),
        apiPort: () => apiPort.value,
        wake: () => runs.deliverer.wake(),
        reserve,
        others,
        owners,
        clock,
        log,
      }),
    (server) => server.close(),
  );
  managementPort.set(management.port);
  await reserve.checked;
  const gateway = await life.start(
    "gateway",
    () =>
      Gateway.listen({
        ...settings,
        ...listening.api,
        ...runs,
        port: settings.apiPort,
        catalog,
        findApp: (key) => store.apps.find(key),
        findHosted: (labels) => store.apps.findHosted(labels),
        whyAbsent: ({ projectId, appName: name }) => whyAbsent(store, { projectId, name }, owners),
        authenticator: new Authenticator(tokens, clock),
        store,
        reserve,
        others,
        seal,
        webhookAllow,
        clock,
        log,
      }),
    async (server) => {
      management.setReady(false);
      const endsAt = clock.monotonic() + graceMs.value;
      // Without another node that takes its calls there is nothing to wait for, and the next service may want its seats.
      const isLast = !node?.hasOthers();
      if (isLast) server.startDraining();
      if (isLast) leaveSeats();
      await withTimeout(graceMs.value, node?.leave() ?? Promise.resolve(), clock);
      server.startDraining();
      runs.submitter.startDraining();
      void runs.scheduler.stop();
      void runs.batchFeeder.stop();
      runs.dispatcher.stop();
      const under = [catalog.drain(), runs.fileRuns.drain(), server.settleForwarding()];
      await withTimeout(Math.max(0, endsAt - clock.monotonic()), Promise.all(under), clock);
      await catalog.close({ kind: "refused", code: "draining" });
      await server.close();
    },
  );
  apiPort.set(gateway.port);
  if (node) {
    followIdentity(node.changes, installation);
    followSecrets(node.changes, catalog);
    runs.queueStates.follow(node.changes);
    runs.accountWeights.follow(node.changes);
    runs.projectQuotas.follow(node.changes);
    followSigningSecrets(node.changes, runs.signingSecrets);
  }
  const peerRoutes = { ...gateway.peerRoutes, ...management.peerRoutes };
  const work = {
    gpus: (withHistory: boolean) => tellGpus(gpus, withHistory),
    ...appWork({ catalog, logBook: apps.logBook, deployer }),
    holdsRun: (run: RunKey) => runs.lookup.holds(run),
    judge: (reckonedNow: number) => void runs.dispatcher.recoverDead(reckonedNow),
  };
  await node?.serve(work, peerRoutes);
  // Stopped before the apps are: a replica that is being tried would seem to have failed.
  await life.begin("builds", () => deployer);
  const apiUrl = settings.publicApiUrl ?? listenerUrl(host, gateway.port);
  const baseUrl = ownUrl();
  const inspection = inspectionOf(settings, store, clock);
  await life.start(
    "control socket",
    () =>
      openControlSocket(sockets, {
        ...operatorRequests({ ...installation, ...identity, dataDir, apiUrl, baseUrl, clock }),
        copyDatabase: ({ to }) => copyDatabase(dataDir, to, false),
        inspectDatabase: async () => ({
          report: await inspection.report(),
          limits: storageLimits(settings),
          enforcement: held.enforcement,
          seatWalls: seats.seatWalls(),
          gpus: nodeGpus(gpus),
        }),
        repairEnvironments: () => apps.repairs.repair(),
        storage: () => storageReport(store, settings, helper),
      }),
    (server) => new Promise<void>((resolve) => server.close(() => resolve())),
  );
  await life.begin("collection of garbage", () => collectWhenIdle(clock));
  management.setReady(true);
  warnOfExposure(settings, baseUrl, log);
  if (isolated.lack !== null)
    log.warn({ detail: isolated.lack }, "apps have no walls: each can do whatever the service's user can");
  if (hasNvidia() && !closesGpus(level))
    log.warn(
      { isolation: level ?? "none" },
      "every app can open every GPU; from landlock on, only those it was granted",
    );
  log.info(
    { apiUrl, baseUrl, python: python.version, store: store.kind, isolation: level ?? "none" },
    "millrace is up",
  );
  const setupLink = await identity.people.setupLink(baseUrl);
  if (setupLink !== null)
    log.info({ setupLink }, "nobody can sign in yet; open this link to create the first account");
  return {
    apiUrl,
    baseUrl,
    owner,
    setupLink,
    store,
    tokens,
    install: (folder) => deployer.deployFolder(owner.projectId, folder),
    settle: async () => {
      await Promise.all([runs.lightRecorder.settle(), runs.recorder.settle()]);
      await runs.journal.settle();
    },
    stop: async (atMostMs = graceMs.value) => {
      graceMs.set(atMostMs);
      await life.stop();
    },
    peerRoutes,
    unanswered: () => gateway.unanswered,
  };
}
