import { beforeAll, expect } from "vitest";
import { ManagementSite } from "../../support/management-site.ts";
import { LOST, SAMPLE_GPUS, ToldGpus } from "../../support/sample-gpus.ts";
import { sharedService } from "../../support/shared-service.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const told = new ToldGpus();
const shared = sharedService(
  { hello: { main: "def run():\n    return 1\n", toml: "[scaling]\nmax_replicas = 1\ncooldown = 3600\n" } },
  { nodeName: "self" },
  told.options,
);
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(shared());
});

/** The replica of the app, and its project. */
async function replica(): Promise<{ readonly projectId: string; readonly containerId: string }> {
  await shared().call("hello");
  const { json } = await site.call("listContainers", { app_id: `${site.projectId}-hello` });
  return json[0];
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
    const { projectId, containerId } = await replica();
    told.grantFirst(projectId, "hello", containerId);
    const { json } = await site.call("listGpus", {}, { as: "owner" });
    expect(json).toMatchObject([{ name: "self", isSelf: true, driver: "580.65.06", trouble: null }]);
    const [first, second, third, fourth] = json[0].gpus;
    const [gpu] = SAMPLE_GPUS;
    const holder = { appId: `${projectId}-hello`, projectId };
    const { nodes: _, ...shown } = gpu!;
    expect(first).toEqual({
      ...shown,
      usedBytes: 52e9,
      freeBytes: 28e9,
      grantedBytes: 36e9,
      utilization: 87,
      watts: 512.5,
      celsius: 64,
      holders: [
        { ...holder, containerId, memoryBytes: 20e9 },
        { ...holder, containerId: null, memoryBytes: 16e9 },
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

    const containers = async () =>
      (await site.call("listContainers", { app_id: `${site.projectId}-hello` })).json[0].gpus;
    expect(await containers()).toEqual([{ uuid: gpu!.uuid, model: "H100", memoryBytes: 20e9 }]);
    // A whole GPU, which is gone.
    told.held = [{ gpu: "GPU-gone", app: "hello", projectId, replicaId: containerId, memoryBytes: null }];
    expect(await containers()).toEqual([{ uuid: "GPU-gone", model: null, memoryBytes: null }]);
    told.held = [];
    expect(await containers()).toEqual([]);
  },
);

verifies("hardware.metrics", "each GPU has its gauges, of what the driver says of it", async () => {
  told.held = [
    { gpu: SAMPLE_GPUS[3]!.uuid, app: "hello", projectId: "p", replicaId: null, memoryBytes: null },
  ];
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
    "millrace_gpu_memory_granted_bytes 0",
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
  told.held = [];
  const none = await testService({});
  expect(await gaugesOf(none.service.baseUrl)).toEqual([]);
});

/** The lines of GPUs. */
async function gaugesOf(baseUrl: string): Promise<string[]> {
  const text = await (await fetch(`${baseUrl}/metrics`)).text();
  return text.split("\n").filter((line) => line.startsWith("millrace_gpu_"));
}
