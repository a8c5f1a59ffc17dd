import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { readSettings } from "../../src/config/settings.ts";
import { type ApiRequest, KubernetesApi } from "../../src/engines/kubernetes/api.ts";
import { readKubeconfig } from "../../src/engines/kubernetes/cluster-access.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { KubernetesPlace } from "../../src/engines/kubernetes/place.ts";
import type { PlacedSeat } from "../../src/engines/agent/seat-place.ts";
import { WORKLOAD, orderFor } from "../../test/support/kubernetes/sample.ts";
import { endWithParent } from "../child-side.ts";

// A service whose calls stay on this machine, beside the pods of many seats: `node crowd-child.ts DIRECTORY APP_FOLDER
// PODS KUBECONFIG`, with `--expose-gc`. It prints one line, {"url": where the app is called, "token": the owner's token}.
// Then each line on stdin is a word, and answered with a line when that is done: "begin" makes the pods and waits until
// all run, "look" says what this process has used and holds, "end" removes them.

const [directory = "", appFolder = "", pods = "0", kubeconfig = ""] = process.argv.slice(2);
const count = Number(pods);
const log = createLog("error");

/** It counts what it asks. */
class CountingApi extends KubernetesApi {
  requests = 0;

  override async ask(asked: ApiRequest): Promise<unknown> {
    this.requests += 1;
    return await super.ask(asked);
  }

  override async watch(asked: ApiRequest): ReturnType<KubernetesApi["watch"]> {
    this.requests += 1;
    return await super.watch(asked);
  }
}

const api = count === 0 ? null : new CountingApi({ ...readKubeconfig(kubeconfig), namespace: "default" });
const place = api && (await openPlace(api));
const seats: PlacedSeat[] = [];

async function openPlace(ours: KubernetesApi): Promise<KubernetesPlace> {
  const flags = { engine: "kubernetes", kubernetesConfig: kubeconfig, kubernetesImage: "worker:{python}" };
  const { settings } = readSettings({ flags, env: {} });
  return await KubernetesPlace.open({
    settings,
    api: ours,
    clock: systemClock,
    log,
    whose: { installationId: randomUUID(), nodeId: "bench" },
    python: "3.12",
    seatAddresses: ["10.0.0.5:4300"],
    isHeld: () => true,
  });
}

async function begin(): Promise<void> {
  const limits = { memoryBytes: 64e6, cpus: 0.1, cpuShare: 0.1 };
  const running = Array.from({ length: count }, async () => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onPhase = (phase: string): void => void (phase === "pulled" && resolve());
    const order = orderFor(randomUUID());
    seats.push(place!.begin(order, { ...WORKLOAD, limits, graceMs: 1_000 }, { onPhase, onError: reject }));
    await promise;
  });
  await Promise.all(running);
}

async function end(): Promise<void> {
  for (const seat of seats) seat.kill();
  await Promise.all(seats.map(({ exited }) => exited));
}

function look(): object {
  globalThis.gc?.();
  const { user, system } = process.cpuUsage();
  const { heapUsed, rss } = process.memoryUsage();
  return { requests: api?.requests ?? 0, cpuMs: (user + system) / 1000, heapBytes: heapUsed, rssBytes: rss };
}

const flags = { dataDir: join(directory, "data"), apiPort: "0", basePort: "0", isolation: "none" };
const service = await startService(readSettings({ flags, env: {} }).settings, { log });
endWithParent(async () => {
  await service.stop();
  await place?.close();
});
const { app } = await service.install(appFolder);
const { projectId, token } = service.owner;
console.log(JSON.stringify({ url: `${service.apiUrl}/v4/${projectId}/${app.name}/run`, token }));
const words: Readonly<Record<string, () => Promise<unknown> | object>> = { begin, look, end };
for await (const word of createInterface({ input: process.stdin }))
  console.log(JSON.stringify((await words[word]?.()) ?? null));
