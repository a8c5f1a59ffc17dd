import { rm } from "node:fs/promises";
import { Catalog } from "./apps/catalog.ts";
import type { AppLogLine, LiveApp } from "./apps/catalog.ts";
import { Deployer } from "./apps/deploys/deployer.ts";
import { BaseImages } from "./apps/once/base-images.ts";
import { FileRuns } from "./apps/once/file-runs.ts";
import { LogBook } from "./apps/logs/log-book.ts";
import { LogShare } from "./apps/logs/log-share.ts";
import { Repairs } from "./apps/repairs.ts";
import { storageReport } from "./apps/storage-report.ts";
import { Secrets } from "./apps/secrets.ts";
import { Volumes } from "./apps/volumes/volumes.ts";
import { listenerLimits } from "./config/listener-limits.ts";
import { VERSION } from "./config/release.ts";
import type { Settings } from "./config/setting-keys.ts";
import { Authenticator } from "./gateway/authenticate.ts";
import { Gateway } from "./gateway/server.ts";
import { identityParts } from "./identity/identity-parts.ts";
import { openInstallation } from "./identity/installation.ts";
import { operatorRequests } from "./identity/operator-requests.ts";
import type { OperatorRequests } from "./identity/operator-requests.ts";
import { openMailer } from "./identity/mailer.ts";
import type { Owner } from "./identity/owner.ts";
import type { Tokens } from "./identity/tokens.ts";
import { AddressRanges } from "./kit/address-ranges.ts";
import { systemClock } from "./kit/clock.ts";
import type { Clock } from "./kit/clock.ts";
import { collectWhenIdle } from "./kit/idle-collector.ts";
import { Lifecycle } from "./kit/lifecycle.ts";
import type { Log } from "./kit/log.ts";
import { makeRuntimeDir, runtimeDir } from "./kit/runtime-dir.ts";
import { within } from "./kit/within.ts";
import { openControlSocket } from "./management/control-socket.ts";
import { listenerUrl, warnOfExposure } from "./management/own-address.ts";
import { Management } from "./management/server.ts";
import type { Version } from "./model/app.ts";
import { Home } from "./replicas/home.ts";
import type { Engine } from "./replicas/engine.ts";
import { processEngine } from "./replicas/process/engine.ts";
import { findInterpreter } from "./replicas/process/interpreter.ts";
import { startRuns } from "./runs/start-runs.ts";
import { startReserve } from "./store/start-reserve.ts";
import type { Store } from "./store/store.ts";
import { copyDatabase, inspectDatabase } from "./store/upkeep.ts";

/** A running service. */
export type Service = {
  readonly apiUrl: string;
  readonly baseUrl: string;
  readonly owner: Owner;
  /** Makes the first person of the dashboard; null when there is one. */
  readonly setupLink: string | null;
  readonly store: Store;
  readonly tokens: Tokens;
  /** Deploys a folder into the default project, as it is: its first call starts it. */
  install(folder: string): Promise<LiveApp>;
  /** Resolves when every record of an ended run is stored. */
  settle(): Promise<void>;
  /** Orderly: readiness off, no new work, a grace for what runs (the one in the settings if none is given), then everything ends. */
  stop(graceMs?: number): Promise<void>;
  /** Requests that had no answer when everything had ended: a fault of ours, which tests look for. */
  unanswered(): number;
};

export type ServiceOptions = {
  readonly log: Log;
  /** Lines that apps print. */
  readonly onAppLog?: (line: AppLogLine) => void;
  /** Where the dashboard was built, if not beside the code. */
  readonly webDir?: string;
  /** Stands between the service and its store; a test that ends the process at a certain write uses it. */
  readonly aroundStore?: (store: Store) => Store;
  /** Runs apps in place of the usual engine; a test that plays their processes uses it. */
  readonly engine?: (python: string, clock: Clock) => Engine;
  /** The time of everything but what runs in threads and in Python; a test moves it. */
  readonly clock?: Clock;
};

/** Answers the operator while no service runs on the directory: it is opened for one request, and let go. */
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
    throw error;
  }
}

async function start(
  settings: Settings,
  { log, onAppLog, webDir, aroundStore, engine: engineOf, clock = systemClock }: ServiceOptions,
  life: Lifecycle,
): Promise<Service> {
  const { host } = settings;
  let { shutdownGraceMs: graceMs } = settings;
  const python = await findInterpreter(settings.python);
  const installation = await openInstallation(settings, clock, life, { aroundStore, log });
  const { store, seal, tokens, owner } = installation;
  const sockets = runtimeDir(settings.dataDir);
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
  const reserve = await startReserve(settings, store, clock, life);
  const engine = (engineOf ?? processEngine)(python.path, clock);
  const share = new LogShare({ store, maxBytes: settings.maxLogBytes, reserve });
  const logBook = await life.start(
    "apps' logs",
    () => LogBook.open({ store, clock, log, share }),
    (opened) => opened.stop(),
  );
  const onLog = (line: AppLogLine): void => {
    logBook.add(line);
    onAppLog?.(line);
  };
  const secrets = new Secrets(store, seal, clock);
  const catalog = await life.start(
    "apps",
    () =>
      Catalog.open({
        store,
        engine,
        home,
        secrets,
        ...settings,
        clock,
        log,
        onLog,
        onRemoved: (appNumber) => runs.sweeper.purge(appNumber),
      }),
    (opened) => opened.close({ kind: "refused", code: "draining" }),
  );
  share.limitApps((appNumber) => catalog.maxLogBytes(appNumber));
  const onRebuilt = (version: Version) => catalog.rebuilt(version);
  const repairs = await life.start(
    "repairs",
    () => new Repairs({ ...settings, store, python, log, onRebuilt }),
    (started) => started.stop(),
  );
  const webhookAllow = new AddressRanges(settings.webhookAllow);
  const target = (appNumber: number) => catalog.target(appNumber);
  const versionTarget = (appNumber: number, id: string) => catalog.versionTarget(appNumber, id);
  const retentions = () => catalog.retentions();
  const cancelFile = (runId: string) => fileRuns.cancel(runId);
  const wiring = { reserve, webhookAllow, target, versionTarget, retentions, cancelFile };
  const runs = await startRuns({ ...settings, ...wiring, store, seal, log, clock }, life);
  const volumes = await life.start(
    "volumes",
    () => new Volumes({ dataDir: settings.dataDir, seal, clock, log, shortage: () => reserve.shortage }),
    (started) => started.stop(),
  );
  volumes.start();
  const deployer = new Deployer({
    ...settings,
    store,
    catalog,
    python,
    seal,
    clock,
    log,
    shortage: () => reserve.shortage,
  });
  await deployer.start();
  const baseImages = await life.start(
    "packages for files",
    () => new BaseImages({ dataDir: settings.dataDir, python, clock, onLog }),
    (started) => started.stop(),
  );
  const fileRuns: FileRuns = await life.start(
    "runs of files",
    () =>
      new FileRuns({
        store,
        secrets,
        clock,
        log,
        onLog,
        dataDir: settings.dataDir,
        python: python.path,
        ownerId: runs.ownerId,
        configOf: (appNumber) => catalog.byNumber(appNumber)?.version.config,
      }),
    (started) => started.stop(),
  );
  await fileRuns.start();
  // Of the settings or the listener, never of a request: whoever asks must not say where a link in a mail leads.
  const ownUrl = (): string => settings.publicBaseUrl ?? listenerUrl(host, management.port);
  const mailer = await life.start(
    "mail",
    () => openMailer(settings, { clock, log }),
    async (started) => await started?.stop(),
  );
  const identity = identityParts({ ...installation, post: mailer && { mailer, baseUrl: ownUrl } }, clock);
  const limits = listenerLimits(settings, log);
  const management: Management = await life.start(
    "management API",
    () =>
      Management.listen({
        ...installation,
        ...identity,
        host,
        limits,
        port: settings.basePort,
        publicApiUrl: settings.publicApiUrl,
        publicBaseUrl: settings.publicBaseUrl,
        projectId: owner.projectId,
        ...runs,
        reserve,
        tallies: [runs.keeper.ended, runs.canceller.ended],
        build: { version: VERSION, python: python.version },
        catalog,
        logBook,
        volumes,
        secrets,
        deployer,
        baseImages,
        fileRuns,
        apiPort: () => gateway.port,
        ...(webDir !== undefined && { webDir }),
        signingSecrets: runs.secrets,
        wake: () => runs.deliverer.wake(),
        clock,
        log,
      }),
    (server) => server.close(),
  );
  const gateway: Gateway = await life.start(
    "gateway",
    () =>
      Gateway.listen({
        ...settings,
        ...limits,
        ...runs,
        port: settings.apiPort,
        catalog,
        findApp: (place) => store.apps.find(place),
        authenticator: new Authenticator(tokens),
        seal,
        webhookAllow,
        clock,
        log,
      }),
    async (server) => {
      management.setReady(false);
      server.startDraining();
      runs.submitter.startDraining();
      runs.dispatcher.stop();
      await within(graceMs, Promise.all([catalog.drain(), fileRuns.drain()]), clock);
      await catalog.close({ kind: "refused", code: "draining" });
      await server.close();
    },
  );
  // Stopped before the apps are: a replica that is being tried would seem to have failed.
  await life.start(
    "builds",
    () => deployer,
    (started) => started.stop(),
  );
  const apiUrl = settings.publicApiUrl ?? listenerUrl(host, gateway.port);
  const baseUrl = ownUrl();
  await life.start(
    "control socket",
    () =>
      openControlSocket(sockets, {
        ...operatorRequests({
          ...installation,
          ...identity,
          dataDir: settings.dataDir,
          apiUrl,
          baseUrl,
          clock,
        }),
        copyDatabase: ({ to }) => copyDatabase(settings.dataDir, to, false),
        inspectDatabase: () => inspectDatabase(settings, false),
        repairEnvironments: () => repairs.repair(),
        storage: () => storageReport(store, settings.dataDir),
      }),
    (server) => new Promise<void>((resolve) => server.close(() => resolve())),
  );
  await life.start(
    "collection of garbage",
    () => collectWhenIdle(clock),
    (started) => started?.stop(),
  );
  management.setReady(true);
  warnOfExposure(settings, baseUrl, log);
  log.info({ apiUrl, baseUrl, python: python.version, store: store.kind }, "millrace is up");
  const setupLink = await identity.setupLink(baseUrl);
  if (setupLink !== null) log.info({ setupLink }, "nobody can sign in yet; this link makes the first person");
  return {
    apiUrl,
    baseUrl,
    owner,
    setupLink,
    store,
    tokens,
    install: (folder) => deployer.deployFolder(owner.projectId, folder),
    settle: async () => {
      await Promise.all([runs.lightKeeper.settle(), runs.keeper.settle()]);
      await runs.journal.settle();
    },
    stop: async (atMostMs = graceMs) => {
      graceMs = atMostMs;
      await life.stop();
    },
    unanswered: () => gateway.unanswered,
  };
}
