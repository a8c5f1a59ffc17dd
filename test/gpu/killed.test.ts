import path from "node:path";
import { expect } from "vitest";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { verifies } from "../verifies.ts";
import { prepareDatabase } from "../support/blank-schema.ts";
import { cheapHash } from "../support/cheap-hashes.ts";
import { scratchDirectory, serve, type Served } from "../support/command-line.ts";
import { parseExposition } from "../support/exposition.ts";
import { type Answer, type TestApp, testService, writeApp } from "../support/service.ts";
import { testSettings } from "../support/test-settings.ts";
import { until } from "../support/until.ts";
import { firstGpu, GpuWatch, hardware, requireGpu } from "./gpu-machine.ts";
import { GB, heldBy, holder, hostPid } from "./holder.ts";

const HELD_BYTES = 60 * GB;
/** Of the memory of the GPU: it has room for one of the apps. */
const SHARE = 0.6;
/** Calls that wait: of the app that holds the memory, and of the other. */
const WAITING = { one: 5, two: 3 } as const;
type AppName = keyof typeof WAITING;
const NAMES = Object.keys(WAITING) as AppName[];
const NONE = { one: 0, two: 0 } as const;

/** Two apps that each hold 60 GB, and whose shares do not fit together. Idle replicas end soon. */
function apps(totalBytes: number): Record<AppName, TestApp> {
  const share = hardware(
    Math.floor((SHARE * totalBytes) / GB),
    "[scaling]\nmax_replicas = 1\ncooldown = 5\n",
  );
  const app = { main: holder(String(HELD_BYTES)), toml: share };
  return { one: app, two: app };
}

/** So many calls of each app at once. */
function callAll(call: (app: AppName) => Promise<Answer>): Record<AppName, Promise<Answer>[]> {
  const several = (app: AppName) => Array.from({ length: WAITING[app] }, () => call(app));
  return { one: several("one"), two: several("two") };
}

/** Waits until a replica of the first app has a call, and so many others of each app are there. */
async function untilBusy(baseUrl: string, others: Readonly<Record<AppName, number>>): Promise<void> {
  await until("a call runs, and others wait", async () => {
    const { samples } = parseExposition(await (await fetch(`${baseUrl}/metrics`)).text());
    const value = (state: "running" | "waiting", app: AppName): number =>
      samples.find(({ name, labels }) => name === `millrace_runs_${state}` && labels["app"] === app)?.value ??
      0;
    // A replica may have taken one ahead.
    const all = (app: AppName): number => value("running", app) + value("waiting", app);
    return value("running", "one") > 0 && all("one") === 1 + others.one && all("two") === others.two;
  });
}

/** All calls succeed, those of each app in one replica, and both apps never held their memory at once. */
async function allServed(calls: Record<AppName, Promise<Answer>[]>, watch: GpuWatch): Promise<void> {
  for (const app of NAMES) {
    const held = (await Promise.all(calls[app])).map(heldBy);
    expect(held.map(({ bytes, sum }) => [bytes, sum])).toEqual(held.map(() => [HELD_BYTES, 1000]));
    expect(new Set(held.map(({ replica }) => replica)).size).toBe(1);
  }
  expect(watch.mostUsedBytes).toBeLessThan(watch.baseBytes + 1.5 * HELD_BYTES);
}

verifies(
  "gpu.killed",
  "kill -9 of a replica that holds 60 GB: the GPU is granted once, and all waiting calls succeed",
  async (context) => {
    const python = requireGpu(context);
    const { uuid, memoryBytes, flags } = firstGpu();
    const watch = await GpuWatch.begin(python, uuid);
    const settings = { isolation: "auto", python, gpuHold: "0s", ...flags };
    const service = await testService(apps(memoryBytes), settings);
    const before = heldBy(await service.call("one"));
    const victim = hostPid(before);
    watch.follow(victim);
    const staying = service.call("one", {}, { functionName: "stay" });
    await untilBusy(service.service.baseUrl, NONE);
    const calls = callAll((app) => service.call(app));
    await untilBusy(service.service.baseUrl, WAITING);
    process.kill(victim, "SIGKILL");
    const { status, json } = await staying;
    expect([status, json.error?.code]).toEqual([502, "app_crashed"]);
    await watch.endOf(victim);
    await allServed(calls, watch);
    // Nothing of them is left after their cooldown.
    await watch.untilFree();
  },
);

/** Deploys apps into a data directory; nothing runs afterwards. */
async function deployed(
  dataDir: string,
  flags: Readonly<Record<string, unknown>>,
  all: Readonly<Record<string, TestApp>>,
): Promise<{ readonly projectId: string; readonly token: string }> {
  const settings = testSettings({ dataDir, apiPort: 0, basePort: 0, ...flags });
  await prepareDatabase(settings);
  const service = await startService(settings, { log: createLog("silent"), hashPassword: cheapHash });
  try {
    for (const [name, app] of Object.entries(all))
      await service.install(await writeApp(path.join(dataDir, "..", "sources", name), name, app));
    const { projectId } = service.owner;
    const expiresAt = Date.now() + 3_600_000;
    const { token } = await service.tokens.issue({ projectId, name: "test", role: "admin", expiresAt });
    return { projectId, token };
  } finally {
    await service.stop();
  }
}

verifies(
  "gpu.killed",
  "kill -9 of the service: the next one has the GPU again, and grants it once",
  async (context) => {
    const python = requireGpu(context);
    const { uuid, memoryBytes, flags } = firstGpu();
    const watch = await GpuWatch.begin(python, uuid);
    const dataDir = path.join(scratchDirectory(), "data");
    const settings = { isolation: "auto", python, ...flags };
    const { projectId, token } = await deployed(dataDir, settings, apps(memoryBytes));
    const env = {
      MILLRACE_ISOLATION: "auto",
      MILLRACE_PYTHON: python,
      MILLRACE_CONTAINER_ENGINE: "none",
      MILLRACE_GPU_HOLD: "0s",
      ...(flags.gpus !== undefined && { MILLRACE_GPUS: flags.gpus }),
    };
    const call = async ({ apiUrl }: Served, app: AppName, functionName = "run"): Promise<Answer> => {
      const response = await fetch(`${apiUrl}/v4/${projectId}/${app}/${functionName}`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
        body: "{}",
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, json: JSON.parse(text) };
    };

    const first = await serve(dataDir, env);
    heldBy(await call(first, "one"));
    const staying = Promise.allSettled([call(first, "one", "stay")]);
    await untilBusy(first.baseUrl, NONE);
    const { one, two } = callAll((app) => call(first, app));
    const waiting = Promise.allSettled([...one, ...two]);
    await untilBusy(first.baseUrl, WAITING);
    process.kill(first.command.pid, "SIGKILL");
    await first.command.exited;
    // Their callers see a connection that is closed.
    const ends = [...(await staying), ...(await waiting)].map(({ status }) => status);
    expect(ends).toEqual(Array(1 + WAITING.one + WAITING.two).fill("rejected"));

    const second = await serve(dataDir, env);
    await allServed(
      callAll((app) => call(second, app)),
      watch,
    );
    await watch.untilFree();
    expect(await second.command.interrupt()).toBe(0);
  },
);
