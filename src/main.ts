import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Catalog } from "./apps/catalog.ts";
import type { AppLogLine, LiveApp } from "./apps/catalog.ts";
import { LogBook } from "./apps/logs/log-book.ts";
import { Secrets } from "./apps/secrets.ts";
import { Volumes } from "./apps/volumes/volumes.ts";
import { VERSION } from "./config/release.ts";
import type { Settings } from "./config/setting-keys.ts";
import { Authenticator } from "./gateway/authenticate.ts";
import { Gateway } from "./gateway/server.ts";
import type { ArrivalLimits } from "./gateway/server.ts";
import { identityParts } from "./identity/identity-parts.ts";
import { ensureOwner } from "./identity/owner.ts";
import type { Owner } from "./identity/owner.ts";
import { KeyRing } from "./identity/key-ring.ts";
import { Tokens } from "./identity/tokens.ts";
import { AddressRanges } from "./kit/address-ranges.ts";
import { systemClock } from "./kit/clock.ts";
import { steady } from "./kit/steady-clock.ts";
import { Lifecycle } from "./kit/lifecycle.ts";
import type { Log } from "./kit/log.ts";
import { makeRuntimeDir, runtimeDir } from "./kit/runtime-dir.ts";
import { Seal, loadMasterKey } from "./kit/seal.ts";
import { openControlSocket } from "./management/control-socket.ts";
import { isLoopback } from "./management/operator.ts";
import { Management } from "./management/server.ts";
import { Home } from "./replicas/home.ts";
import { processEngine } from "./replicas/process/engine.ts";
import { findInterpreter } from "./replicas/process/interpreter.ts";
import { startRuns } from "./runs/start-runs.ts";
import { lockDirectory } from "./store/directory-lock.ts";
import { openStore } from "./store/store.ts";
import type { Store } from "./store/store.ts";
import { copyDatabase, inspectDatabase } from "./store/upkeep.ts";

/** A running service. */
export type Service = {
  readonly apiUrl: string;
  readonly baseUrl: string;
  readonly owner: Owner;
  readonly store: Store;
  readonly tokens: Tokens;
  /** Deploys a folder into the default project. */
  install(folder: string): Promise<LiveApp>;
  /** Resolves when every record of an ended run is stored. */
  settle(): Promise<void>;
  /** Orderly: readiness off, no new work, a grace for what runs, then everything ends. */
  stop(): Promise<void>;
};

export type ServiceOptions = {
  readonly log: Log;
  /** Lines that apps print. */
  readonly onAppLog?: (line: AppLogLine) => void;
  readonly arrival?: ArrivalLimits;
  /** Stands between the service and its store; a test that ends the process at a certain write uses it. */
  readonly aroundStore?: (store: Store) => Store;
};

/** What stands in the data directory apart from the apps: database, keys, owner. */
export async function openInstallation(
  settings: Settings,
  life: Lifecycle,
  aroundStore: (store: Store) => Store = (store) => store,
): Promise<{ store: Store; seal: Seal; keys: KeyRing; tokens: Tokens; owner: Owner }> {
  const clock = systemClock;
  await life.start(
    "directory lock",
    () => lockDirectory(settings.dataDir),
    (lock) => lock.release(),
  );
  const store = await life.start(
    "store",
    async () => aroundStore(await openStore(settings)),
    (opened) => opened.close(),
  );
  const seal = new Seal(loadMasterKey(path.join(settings.dataDir, "master.key")));
  const keys = await KeyRing.open(store, seal, clock);
  const instanceId = await store.meta.setIfAbsent({ key: "instance_id", value: randomUUID() });
  // By a clock that cannot be set: a wrong date must not void every token, nor bring an old one back.
  const tokens = new Tokens(store, keys, instanceId, steady(clock));
  const owner = await ensureOwner(store, tokens, settings.dataDir, clock);
  return { store, seal, keys, tokens, owner };
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
  { log, onAppLog, arrival, aroundStore }: ServiceOptions,
  life: Lifecycle,
): Promise<Service> {
  const clock = systemClock;
  const { host } = settings;
  const python = await findInterpreter(settings.python);
  const installation = await openInstallation(settings, life, aroundStore);
  const { store, seal, tokens, owner } = installation;
  const sockets = runtimeDir(settings.dataDir);
  await life.start(
    "runtime directory",
    () => makeRuntimeDir(sockets),
    () => rm(sockets, { recursive: true, force: true }),
  );
  const home = await life.start(
    "replicas' home",
    () => Home.open(sockets),
    (opened) => opened.close(),
  );
  const engine = processEngine(python.path);
  const logBook = await life.start(
    "apps' logs",
    () => LogBook.open({ store, clock, log }),
    (opened) => opened.stop(),
  );
  const catalog = await life.start(
    "apps",
    () =>
      Catalog.open({
        store,
        engine,
        home,
        dataDir: settings.dataDir,
        clock,
        log,
        onLog: (line) => {
          logBook.add(line);
          onAppLog?.(line);
        },
      }),
    (opened) => opened.close({ kind: "refused", code: "draining" }),
  );
  const webhookAllow = new AddressRanges(settings.webhookAllow);
  const target = (appNumber: number) => catalog.byNumber(appNumber)?.target ?? null;
  const retentions = () => catalog.retentions();
  const parts = { ...settings, store, seal, log, clock, webhookAllow, target, retentions };
  const runs = await startRuns(parts, life);
  const volumes = await life.start(
    "volumes",
    () => new Volumes({ dataDir: settings.dataDir, seal, clock, log, isDiskLow: () => runs.reserve.isLow }),
    (started) => started.stop(),
  );
  volumes.start();
  const identity = identityParts(installation, clock);
  const management = await life.start(
    "management API",
    () =>
      Management.listen({
        ...installation,
        ...identity,
        host,
        port: settings.basePort,
        publicApiUrl: settings.publicApiUrl,
        publicBaseUrl: settings.publicBaseUrl,
        projectId: owner.projectId,
        ...runs,
        tallies: [runs.keeper.ended, runs.canceller.ended],
        build: { version: VERSION, python: python.version },
        catalog,
        logBook,
        volumes,
        secrets: new Secrets(store, seal, clock),
        signingSecrets: runs.secrets,
        wake: () => runs.deliverer.wake(),
        clock,
        log,
      }),
    (server) => server.close(),
  );
  const gateway = await life.start(
    "gateway",
    () =>
      Gateway.listen({
        ...settings,
        ...(arrival && { arrival }),
        ...runs,
        port: settings.apiPort,
        catalog,
        authenticator: new Authenticator(tokens),
        seal,
        webhookAllow,
        clock,
        log,
      }),
    async (server) => {
      management.setReady(false);
      server.startDraining();
      runs.dispatcher.stop();
      await Promise.race([catalog.drain(), sleep(settings.shutdownGraceMs, undefined, { ref: false })]);
      await catalog.close({ kind: "refused", code: "draining" });
      await server.close();
    },
  );
  const apiUrl = settings.publicApiUrl ?? listenerUrl(host, gateway.port);
  const baseUrl = settings.publicBaseUrl ?? listenerUrl(host, management.port);
  await life.start(
    "control socket",
    () =>
      openControlSocket(sockets, {
        bootstrap: () => ({ ...owner, apiUrl, baseUrl }),
        copyDatabase: ({ to }) => copyDatabase(settings.dataDir, to, false),
        inspectDatabase: () => inspectDatabase(settings, false),
      }),
    (server) => new Promise<void>((resolve) => server.close(() => resolve())),
  );
  management.setReady(true);
  warnOfExposure(settings, log);
  log.info({ apiUrl, baseUrl, python: python.version, store: store.kind }, "millrace is up");
  const setupLink = await identity.setupLink(baseUrl);
  if (setupLink !== null) log.info({ setupLink }, "nobody can sign in yet; this link makes the first person");
  return {
    apiUrl,
    baseUrl,
    owner,
    store,
    tokens,
    install: (folder) => catalog.install(owner.projectId, folder),
    settle: async () => {
      await runs.lightKeeper.settle();
      await runs.journal.settle();
    },
    stop: () => life.stop(),
  };
}

function warnOfExposure({ host, publicApiUrl }: Settings, log: Log): void {
  if (isLoopback(host) || publicApiUrl?.startsWith("https://")) return;
  log.warn(
    { host },
    "LISTENING BEYOND THIS MACHINE WITHOUT TLS: put a TLS proxy in front, tokens travel in the clear",
  );
}

/** The address of a listener as somebody on this machine reaches it. */
export function listenerUrl(host: string, port: number): string {
  if (host === "0.0.0.0") return `http://127.0.0.1:${port}`;
  return host.includes(":") ? `http://[${host === "::" ? "::1" : host}]:${port}` : `http://${host}:${port}`;
}
