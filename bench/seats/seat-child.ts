import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { readSettings } from "../../src/config/settings.ts";
import { KubernetesApi } from "../../src/engines/kubernetes/api.ts";
import { readKubeconfig } from "../../src/engines/kubernetes/cluster-access.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { Seal } from "../../src/kit/seal.ts";
import { packFolder } from "../../src/kit/tar/pack-folder.ts";
import { startService } from "../../src/main.ts";
import { openAuthority } from "../../src/nodes/authority.ts";
import type { Engine, Workload } from "../../src/engines/engine.ts";
import type { Home } from "../../src/engines/home.ts";
import { KubernetesPlace } from "../../src/engines/kubernetes/place.ts";
import { processEngine } from "../../src/engines/local/engine.ts";
import type { ProcessHost } from "../../src/engines/local/host.ts";
import { spawnPython } from "../../src/engines/local/spawn.ts";
import { remoteEngine } from "../../src/engines/agent/engine.ts";
import { SeatListener } from "../../src/engines/agent/seat-listener.ts";
import type { SeatPlace } from "../../src/engines/agent/seat-place.ts";
import type { TestCluster } from "../../test/support/kubernetes/cluster-setup.ts";
import { LocalPlace } from "../../test/support/remote/local-place.ts";
import { endWithParent, tellMemory } from "../child-side.ts";

// A service that reaches its replicas by TLS: `node seat-child.ts passthrough|millrace|pod DIRECTORY APP_FOLDER CLUSTER`;
// CLUSTER is a `TestCluster` as JSON. It prints one line, {"url": where the app is called, "token": the owner's token}.

const [way = "", directory = "", appFolder = "", given = "null"] = process.argv.slice(2);
const cluster = JSON.parse(given) as TestCluster | null;
const HASH = "0".repeat(64);
const log = createLog("error");

/** The service's own: known when its first seat is opened. */
let home: Home | null = null;
let bundle = "";
const meta = { get: async () => null, setIfAbsent: async ({ value }: { value: string }) => value };
const authority = await openAuthority({
  store: { meta },
  seal: new Seal(randomBytes(32)),
  clock: systemClock,
});
const listener = await SeatListener.listen({
  identity: authority.forSeats(),
  host: cluster ? "0.0.0.0" : "127.0.0.1",
  port: 0,
  home: { welcome: (...given: Parameters<Home["welcome"]>) => home?.welcome(...given) } as Home,
  blobs: { open: () => packFolder(bundle) },
  records: {
    mark: () => Buffer.alloc(0),
    add: async () => {},
    remove: async () => true,
    claim: async () => null,
    find: async () => ({ kind: "nowhere" }),
  },
  clock: systemClock,
  onError: (error) => log.error({ err: error }, "seat"),
});

/** An engine that learns where replicas call home. */
function knowing(host: ProcessHost, engine: Engine): Engine {
  return {
    ...engine,
    open: (workload, keepMs, given, owner) => {
      home = given;
      bundle = join(host.dataDir, workload.bundle);
      return engine.open(inBlobs(workload), keepMs, given, owner);
    },
  };
}

function inBlobs(workload: Workload): Workload {
  return { ...workload, version: { ...workload.version, bundleBlob: HASH } };
}

const seatAddress = `${cluster?.hostAddress ?? "127.0.0.1"}:${listener.port}`;

function seatsIn(place: SeatPlace): (host: ProcessHost) => Engine {
  const addresses = () => [seatAddress];
  return (host) => remoteEngine(host, { place, listener, addresses, graceMs: 30_000, storage: "" });
}

async function pods({ kubeconfig, workerImage }: TestCluster): Promise<KubernetesPlace> {
  const flags = { engine: "kubernetes", kubernetesConfig: kubeconfig, kubernetesImage: workerImage };
  const { settings: ours } = readSettings({ flags, env: {} });
  return await KubernetesPlace.open({
    settings: ours,
    api: new KubernetesApi({ ...readKubeconfig(kubeconfig), namespace: "default" }),
    clock: systemClock,
    log,
    whose: { installationId: randomUUID(), nodeId: "bench" },
    python: (await findInterpreter("python3")).version,
    seatAddresses: [seatAddress],
    isHeld: () => true,
  });
}

async function passThrough(): Promise<(host: ProcessHost) => Engine> {
  const address = join(directory, "pass.sock");
  const script = join(import.meta.dirname, "pass-tls.ts");
  const child = spawn(process.execPath, [script, address, String(listener.port)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin.end(authority.certificate);
  await once(createInterface({ input: child.stdout }), "line");
  return (host) =>
    processEngine(host, (start, clock, events) => spawnPython({ ...start, address }, clock, events));
}

const place = way === "pod" && cluster ? await pods(cluster) : new LocalPlace({ folder: directory });
const engineOf = way === "passthrough" ? await passThrough() : seatsIn(place);
const flags = { dataDir: join(directory, "data"), apiPort: "0", basePort: "0", isolation: "none" };
const { settings } = readSettings({ flags, env: {} });
const service = await startService(settings, { log, engine: (host) => knowing(host, engineOf(host)) });
endWithParent(async () => {
  await service.stop();
  if (place instanceof KubernetesPlace) await place.close();
});
const { app } = await service.install(appFolder);
const { projectId, token } = service.owner;
console.log(JSON.stringify({ url: `${service.apiUrl}/v4/${projectId}/${app.name}/run`, token }));
tellMemory();
