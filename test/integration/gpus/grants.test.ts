import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { FakeGpus } from "../../../src/host/gpus/fake.ts";
import { holders } from "../../support/gpus/holders.ts";
import { type TestService, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite } from "../deploys/site.ts";

const SHOW = `
import os

NAMES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MILLRACE_GPU_MEMORY")
AT_IMPORT = {name: os.environ.get(name) for name in NAMES}


def run():
    return {name: os.environ.get(name) for name in NAMES}


def imported():
    return AT_IMPORT


def pid():
    return os.getpid()


def hold():
    import time

    while not os.path.exists("go"):
        time.sleep(0.01)
    return os.environ.get("CUDA_VISIBLE_DEVICES")
`;

/** A server that answers with its variables. */
const SERVER = `
import http.server, json, os

class Show(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "MILLRACE_GPU_MEMORY")}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Show).serve_forever()
`;

const ONE = { count: 1, model: "H100", memoryGb: 80 };
const T4 = { count: 1, model: "T4", memoryGb: 16 };
const H100 = 'compute = "H100"';
const SHARE = `${H100}\ngpu_memory = 60`;

/** What a second app waits for. */
const IN_USE = "GPUs: 1 of H100 is wanted, none is free; app holder is in use";

/** A service whose apps make room for each other at once. */
function withGpus(gpus: FakeGpus, apps: Parameters<typeof testService>[0]): Promise<TestService> {
  return testService(apps, { ...WITHOUT_WALLS, gpuHold: "0s" }, { gpus });
}

/** Lets the calls of an app go on that hold its replica. */
function letGo(site: TestService, app: string): void {
  writeFileSync(path.join(site.bundleDir(app), "go"), "");
}

function obstaclesOf(site: TestService, app: string): (string | null)[] {
  return [...(site.apps.get(app)?.pool.replicas ?? [])].map((replica) => replica.obstacle());
}

const toml = (hardware: string, scaling = ""): string =>
  `[hardware]\n${hardware}\n[scaling]\nmax_queue_seconds = "1s"\n${scaling}`;

verifies(
  ["gpu.variables", "gpu.template"],
  "a replica is told of its GPUs, its template imports with them, and other processes are told of none",
  async () => {
    const gpus = new FakeGpus([T4, ONE]);
    const site = await withGpus(gpus, { plain: { main: SHOW }, whole: { main: SHOW, toml: toml(H100) } });
    const mine = {
      NVIDIA_VISIBLE_DEVICES: gpus.current().gpus[1]?.uuid,
      CUDA_VISIBLE_DEVICES: "1",
      CUDA_DEVICE_ORDER: "PCI_BUS_ID",
      MILLRACE_GPU_MEMORY: String(80 * 2 ** 30),
    };
    expect((await site.call("whole")).json.result).toEqual(mine);
    expect((await site.call("whole", {}, { functionName: "imported" })).json.result).toEqual(mine);
    expect((await site.call("plain")).json.result).toMatchObject({
      CUDA_VISIBLE_DEVICES: "",
      NVIDIA_VISIBLE_DEVICES: null,
    });
    expect(await holders(site)).toEqual(["whole 1"]);
  },
);

verifies("gpu.variables", "a server gets them too, and no secret replaces them", async () => {
  const gpus = new FakeGpus([{ ...ONE, count: 2 }]);
  const server = `[runtime.custom]\nentrypoint = ["python3", "server.py"]\nport = 8000`;
  const site = await withGpus(gpus, {
    server: {
      main: "",
      files: { "server.py": SERVER },
      toml: `${toml(`${H100}\ngpu_count = 2\ngpu_memory = 20.5`)}\n${server}`,
    },
    plain: { main: SHOW },
  });
  const secrets = { MILLRACE_GPU_MEMORY: "1", CUDA_VISIBLE_DEVICES: "7" };
  const set = await new DeploySite(site).ask("PATCH", "secrets", secrets);
  expect(set.status).toBe(200);
  const answer = await site.call("server", "", { functionName: "", method: "GET" });
  expect(answer.json).toEqual({ CUDA_VISIBLE_DEVICES: "0,1", MILLRACE_GPU_MEMORY: String(20.5e9) });
  expect(await holders(site)).toEqual(["server 0+1"]);
  expect((await site.call("plain")).json.result).toMatchObject({
    CUDA_VISIBLE_DEVICES: "",
    MILLRACE_GPU_MEMORY: "1",
  });
});

verifies(
  "gpu.queue",
  "a call that waits too long for a GPU in use gets no_gpu_free, and the start that waited is given up",
  async () => {
    const gpus = new FakeGpus([ONE]);
    const site = await withGpus(gpus, {
      holder: { main: SHOW, toml: toml(H100) },
      other: { main: SHOW, toml: toml(H100) },
      patient: { main: SHOW, toml: `[hardware]\n${H100}` },
    });
    const held = site.call("holder", {}, { functionName: "hold" });
    await until("the GPU is granted", async () => (await holders(site)).length === 1);
    const refused = await site.call("other");
    expect([refused.status, refused.json.code, refused.headers.get("retry-after")]).toEqual([
      503,
      "no_gpu_free",
      "1",
    ]);
    expect(refused.json.message).toBe(`The call waited too long for a GPU: ${IN_USE}.`);
    await until("nothing waits", () => obstaclesOf(site, "other").length === 0);
    expect(await holders(site)).toEqual(["holder 0"]);
    // A call that waits when the GPU becomes free is served.
    const waiting = site.call("patient", {}, { functionName: "pid" });
    await until("it waits", () => obstaclesOf(site, "patient").includes(IN_USE));
    letGo(site, "holder");
    expect((await held).json.result).toBe("0");
    expect((await waiting).status).toBe(200);
  },
);

verifies(
  "gpu.evicted",
  "an idle replica makes room for another app, says so, and starts again with its next call",
  async () => {
    const gpus = new FakeGpus([ONE]);
    const site = await withGpus(gpus, {
      one: { main: SHOW, toml: toml(SHARE) },
      two: { main: SHOW, toml: toml(SHARE) },
    });
    for (const app of ["one", "two", "one", "two"]) {
      expect((await site.call(app)).json.result).toMatchObject({ MILLRACE_GPU_MEMORY: String(60e9) });
      expect(await holders(site)).toEqual([`${app} 0`]);
    }
    const evictions = site.logs.filter(({ text }) => text.includes("evicted"));
    expect(evictions.map(({ appName, text }) => `${appName}: ${text}`)).toEqual(
      ["one two", "two one", "one two"].map((pair) => {
        const [gone, came] = pair.split(" ");
        return `${gone}: [millrace] this replica was evicted for app ${came}, which needs its GPU`;
      }),
    );
  },
);

verifies(
  ["gpu.release", "gpu.template"],
  "the GPU of a replica that was killed is granted again, once, though its template lives on",
  async () => {
    const gpus = new FakeGpus([ONE]);
    const site = await withGpus(gpus, { app: { main: SHOW, toml: toml(H100) } });
    const first = (await site.call("app", {}, { functionName: "pid" })).json.result as number;
    process.kill(first, "SIGKILL");
    await until("the GPU is free", async () => (await holders(site)).length === 0);
    const second = (await site.call("app", {}, { functionName: "pid" })).json.result as number;
    expect(second).not.toBe(first);
    expect(await holders(site)).toEqual(["app 0"]);
  },
);

verifies(
  "gpu.template",
  "a template that cannot fork becomes the replica with its GPUs, and others get their own",
  async () => {
    const gpus = new FakeGpus([{ ...ONE, count: 2 }]);
    const site = await withGpus(gpus, {
      app: {
        main: `import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n${SHOW}`,
        toml: toml(H100, "max_replicas = 2"),
      },
    });
    const held = site.call("app", {}, { functionName: "hold" });
    await until("the first is granted", async () => (await holders(site)).length === 1);
    const other = (await site.call("app")).json.result.CUDA_VISIBLE_DEVICES;
    letGo(site, "app");
    // Which of the two replicas is ready first is open.
    expect(new Set([(await held).json.result, other])).toEqual(new Set(["0", "1"]));
    expect(await holders(site)).toEqual(["app 0", "app 1"]);
  },
);

verifies(
  ["gpu.never", "gpu.none", "gpu.cpu"],
  "a model that the machine lacks is refused at once; on a machine without GPUs the app runs on the CPU",
  async () => {
    const app = { main: SHOW, toml: toml(H100) };
    const either = { main: SHOW, toml: toml('compute = ["H100", "CPU"]') };
    const site = await withGpus(new FakeGpus([T4]), { app, either });
    const refused = await site.call("app");
    expect([refused.status, refused.json.code]).toEqual([503, "no_gpu_free"]);
    expect(refused.json.message).toContain("this machine has no GPU of H100, only T4");
    expect((await site.call("either")).json.result.CUDA_VISIBLE_DEVICES).toBe("");
    const none = await testService({ app }, WITHOUT_WALLS);
    expect((await none.call("app")).json.result.CUDA_VISIBLE_DEVICES).toBe("");
  },
);

/** Stops itself during its first import. */
const STOPS = `
import os
import signal

if not os.path.exists("stopped"):
    open("stopped", "w").close()
    os.kill(os.getpid(), signal.SIGSTOP)
`;

verifies(
  "gpu.stopped",
  "an import that is stopped fails, and its GPU is granted to another app",
  async () => {
    const apps = {
      stops: { main: STOPS + SHOW, toml: toml(H100) },
      other: { main: SHOW, toml: `[hardware]\n${H100}` },
    };
    const site = await withGpus(new FakeGpus([ONE]), apps);
    const failed = await site.call("stops");
    expect([failed.status, failed.json.code]).toEqual([503, "app_not_ready"]);
    expect(failed.json.message).toContain("it was stopped and did not answer for 5 s");
    expect((await site.call("other")).status).toBe(200);
  },
);

verifies(
  "gpu.excess",
  "a replica that uses more than its share is ended, and its call says why",
  async () => {
    const gpus = new FakeGpus([ONE]);
    const site = await withGpus(gpus, {
      app: { main: SHOW, toml: toml(SHARE) },
      other: { main: SHOW, toml: `[hardware]\n${SHARE}` },
    });
    const pid = (await site.call("app", {}, { functionName: "pid" })).json.result as number;
    const held = site.call("app", {}, { functionName: "hold" });
    await until("its call runs", () => [...(site.apps.get("app")?.pool.replicas ?? [])][0]?.calls.size === 1);
    const uses = (usedBytes: number): void =>
      gpus.show(0, {
        usedBytes,
        freeBytes: 80 * 2 ** 30 - usedBytes,
        processes: usedBytes > 0 ? [{ pid, usedBytes }] : [],
      });
    uses(67e9);
    const waiting = site.call("other");
    const { status, json } = await held;
    expect([status, json.code]).toEqual([502, "out_of_gpu_memory"]);
    expect(json.message).toContain("hardware.gpu_memory");
    uses(0);
    expect((await waiting).status).toBe(200);
    expect(await holders(site)).toEqual(["other 0"]);
  },
);
