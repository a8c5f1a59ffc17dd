import { beforeAll, expect } from "vitest";
import { ManagementSite } from "../../support/management-site.ts";
import { LOST, SAMPLE_GPUS, ToldGpus } from "../../support/gpus/sample-gpus.ts";
import { sharedService } from "../../support/shared-service.ts";
import { testService, WITHOUT_WALLS } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const told = new ToldGpus();
/** One replica, which is kept. */
function app(hardware: string) {
  const toml = `[hardware]\n${hardware}\n[scaling]\nmax_replicas = 1\ncooldown = 3600\n`;
  return { main: "def run():\n    return 1\n", toml };
}

const shared = sharedService(
  {
    hello: app('compute = "H100"\ngpu_memory = 20'),
    other: app('compute = "H100"\ngpu_memory = 16'),
    whole: app('compute = "L40S"'),
  },
  { ...WITHOUT_WALLS, nodeName: "self" },
  told.options,
);
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(shared());
});

/** The replica of an app that was called. */
async function replicaOf(name: string) {
  expect((await shared().call(name)).status).toBe(200);
  const { json } = await site.call("listContainers", { app_id: `${site.projectId}-${name}` });
  return json[0] as { readonly containerId: string; readonly gpus: unknown };
}

verifies(
  ["hardware.models", "hardware.list"],
  "each model of GPU that works has a row, and the processors",
  async () => {
    const { json } = await site.call("listHardware", {}, { as: "run" });
    const [cpu, ...models] = json as Record<string, unknown>[];
    expect(cpu).toMatchObject({ name: "CPU", provider: "local", gpuCount: 0 });
    expect(cpu).not.toHaveProperty("gpuMemoryGb");
    const { name: _, ...machine } = cpu ?? {};
    expect(models).toEqual([
      { ...machine, name: "H100", gpuCount: 2, gpuMemoryGb: 80 },
      { ...machine, name: "L40S", gpuCount: 1, gpuMemoryGb: 45 },
    ]);
  },
);

verifies(
  ["hardware.gpus", "hardware.replicas"],
  "the operator sees who holds a GPU, and an app its replicas' GPUs",
  async () => {
    const { projectId } = site;
    const hello = await replicaOf("hello");
    const other = await replicaOf("other");
    const { json } = await site.call("listGpus", {}, { as: "owner" });
    expect(json).toMatchObject([{ name: "self", isSelf: true, driver: "580.65.06", trouble: null }]);
    const [first, second, third, fourth] = json[0].gpus;
    const [gpu] = SAMPLE_GPUS;
    const { files: _, ...shown } = gpu!;
    // The driver does not tell the processes.
    const unknown = { projectId, usedBytes: null };
    expect(first).toEqual({
      ...shown,
      usedBytes: 52e9,
      freeBytes: 28e9,
      grantedBytes: 36e9,
      utilization: 87,
      watts: 512.5,
      celsius: 64,
      holders: [
        { ...unknown, appId: `${projectId}-hello`, containerId: hello.containerId, memoryBytes: 20e9 },
        { ...unknown, appId: `${projectId}-other`, containerId: other.containerId, memoryBytes: 16e9 },
      ],
    });
    expect(second).toMatchObject({
      fault: null,
      usedBytes: null,
      grantedBytes: 0,
      utilization: null,
      holders: [],
    });
    expect(third).toMatchObject({ fault: LOST });
    expect(fourth).toMatchObject({ model: "L40S", usedBytes: 1e9, celsius: null });

    expect(hello.gpus).toMatchObject([
      { uuid: gpu!.uuid, model: "H100", memoryBytes: 20e9, usedBytes: 52e9 },
    ]);
    const { uuid } = fourth;
    expect((await replicaOf("whole")).gpus).toMatchObject([
      { uuid, model: "L40S", memoryBytes: null, usedBytes: 1e9 },
    ]);
    const { machine } = told;
    told.machine = { ...machine, gpus: machine.gpus.slice(0, 3) };
    expect((await replicaOf("whole")).gpus).toEqual([
      { uuid, model: null, memoryBytes: null, totalBytes: null, usedBytes: 1e9, ownUsedBytes: null },
    ]);
    told.machine = machine;
  },
);

verifies("hardware.metrics", "each GPU has its gauges, of what the driver says of it", async () => {
  for (const name of ["hello", "other", "whole"]) await replicaOf(name);
  const scraped = await gaugesOf(shared().service.baseUrl);
  const of = (index: number) => {
    const { uuid, model } = SAMPLE_GPUS[index]!;
    return scraped.filter((line) => line.includes(`{uuid="${uuid}",index="${index}",model="${model}"}`));
  };
  const values = (index: number) => of(index).map((line) => line.replace(/\{.*\}/, ""));
  expect(values(0)).toEqual([
    "millrace_gpu_up 1",
    "millrace_gpu_memory_bytes 85520809984",
    "millrace_gpu_memory_used_bytes 52000000000",
    "millrace_gpu_memory_granted_bytes 36000000000",
    "millrace_gpu_utilization_ratio 0.87",
    "millrace_gpu_power_watts 512.5",
    "millrace_gpu_temperature_celsius 64",
  ]);
  expect(values(2)).toEqual([
    "millrace_gpu_up 0",
    "millrace_gpu_memory_bytes 85520809984",
    "millrace_gpu_memory_granted_bytes 0",
  ]);
  expect(values(3)).toContain("millrace_gpu_memory_granted_bytes 48305799168");
  const none = await testService({});
  expect(await gaugesOf(none.service.baseUrl)).toEqual([]);
});

/** The lines of GPUs. */
async function gaugesOf(baseUrl: string): Promise<string[]> {
  const text = await (await fetch(`${baseUrl}/metrics`)).text();
  return text.split("\n").filter((line) => line.startsWith("millrace_gpu_"));
}
