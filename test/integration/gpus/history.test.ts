import { expect } from "vitest";
import { FakeGpus } from "../../../src/host/gpus/fake.ts";
import type { AppGpus, MachineRecord } from "../../../src/shapes/hardware.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { parseExposition } from "../../support/exposition.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { testService, WITHOUT_WALLS } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "import os\n\ndef run():\n    return os.getpid()\n";
const SCALING = "[scaling]\nmax_replicas = 1\ncooldown = 3600\n";
const share = (gb: number) => ({
  main: MAIN,
  toml: `[hardware]\ncompute = "H100"\ngpu_memory = ${gb}\n${SCALING}`,
});
const WHOLE = 80 * 2 ** 30;

async function site() {
  // As MILLRACE_GPUS=fake:2xH100:80, and the test says what is in use.
  const gpus = new FakeGpus([{ count: 2, model: "H100", memoryGb: 80 }]);
  const clock = new SkippingClock();
  const apps = { small: share(20), large: share(60), both: { main: MAIN, toml: "" } };
  apps.both.toml = `[hardware]\ncompute = "H100"\ngpu_count = 2\n${SCALING}`;
  const test = await testService(apps, { ...WITHOUT_WALLS, gpuHold: "0s" }, { gpus, clock });
  const api = await ManagementSite.open(test);
  const idOf = (app: string): string => `${api.projectId}-${app}`;
  /** Calls an app, and has its replica hold that much of the first GPU. */
  const uses = async (app: string, gb: number) => {
    const { json } = await test.call(app);
    const { processes } = gpus.readings()[0] ?? {};
    const all = [...(processes ?? []), { pid: json.result as number, usedBytes: gb * 1e9 }];
    const usedBytes = all.reduce((sum, each) => sum + each.usedBytes!, 0);
    gpus.show(0, { processes: all, usedBytes, freeBytes: WHOLE - usedBytes, utilization: 90 });
    const { json: containers } = await api.call("listContainers", { app_id: idOf(app) });
    return containers[0];
  };
  const machine = async (): Promise<MachineRecord> =>
    (await api.call("listGpus", { history: "true" }, { as: "owner" })).json[0];
  const hourOf = async (app: string): Promise<AppGpus> =>
    (await api.call("getAppGpus", { app_id: idOf(app) }, { as: "run" })).json;
  return { test, api, gpus, clock, idOf, uses, machine, hourOf };
}

verifies(
  ["hardware.metrics.replicas", "hardware.replicas"],
  "each replica has gauges of its GPU: what it was granted, and what it uses where that is known",
  async () => {
    const { test, api, gpus, uses } = await site();
    const [small, large] = [await uses("small", 5), await uses("large", 40)];
    expect([small.gpus[0].ownUsedBytes, large.gpus[0]]).toMatchObject([
      5e9,
      { memoryBytes: 60e9, usedBytes: 45e9, ownUsedBytes: 40e9 },
    ]);
    const scrape = async () => {
      const text = await (await fetch(`${test.service.baseUrl}/metrics`)).text();
      const found = parseExposition(text).samples.filter(({ name }) => name.includes("gpu_replica"));
      return found.map(({ name, labels, value }) => [name.slice("millrace_gpu_".length), labels, value]);
    };
    const [gpu] = gpus.current().gpus;
    const labels = ({ containerId: replica }: { containerId: string }, app: string) => {
      return { project: api.projectId, app, replica, uuid: gpu?.uuid, index: "0" };
    };
    const granted = [
      ["replica_granted_bytes", labels(small, "small"), 20e9],
      ["replica_granted_bytes", labels(large, "large"), 60e9],
    ];
    const used = [
      ["replica_used_bytes", labels(small, "small"), 5e9],
      ["replica_used_bytes", labels(large, "large"), 40e9],
    ];
    expect(await scrape()).toEqual([...granted, ...used]);
    gpus.show(0, { processes: null });
    expect(await scrape()).toEqual(granted);
  },
);

verifies(
  "hardware.history",
  "the last hour of each GPU is told to the operator with its evictions, and to an app while it had them",
  async () => {
    const { test, api, gpus, clock, idOf, uses, machine, hourOf } = await site();
    await uses("small", 5);
    clock.skip(20_000);
    await uses("large", 40);
    clock.skip(20_000);
    const [first, second] = gpus.current().gpus;
    const now = (await machine()).history;
    expect(now?.gpus.map(({ uuid, usedBytes }) => [uuid, usedBytes.length])).toEqual([
      [first?.uuid, 360],
      [second?.uuid, 360],
    ]);
    expect(now?.gpus[0]?.usedBytes).toContain(5e9);
    expect([now?.gpus[0]?.usedBytes.at(-1), now?.gpus[0]?.utilization.at(-1)]).toEqual([45e9, 90]);
    expect(now?.gpus[1]?.usedBytes.at(-1)).toBe(0);
    expect(now?.evictions).toEqual([]);
    expect((await hourOf("small")).gpus).toMatchObject([{ uuid: first?.uuid, totalBytes: WHOLE }]);
    expect((await hourOf("small")).gpus[0]?.ownUsedBytes.at(-1)).toBe(5e9);

    // Both make room for an app that needs two whole GPUs.
    gpus.show(0, { processes: [], usedBytes: 0, freeBytes: WHOLE });
    await test.call("both");
    clock.skip(20_000);
    const { history, gpus: held } = await machine();
    expect(held.map(({ holders }) => holders.map(({ appId }) => appId))).toEqual([
      [idOf("both")],
      [idOf("both")],
    ]);
    expect(history?.evictions.map(({ gpus: of, evicted, by }) => [of, evicted.appId, by.appId])).toEqual(
      expect.arrayContaining([
        [[first?.uuid], idOf("small"), idOf("both")],
        [[first?.uuid], idOf("large"), idOf("both")],
      ]),
    );
    const [past] = (await hourOf("large")).gpus;
    expect([past?.usedBytes.at(-1), past?.usedBytes.includes(45e9)]).toEqual([null, true]);
    expect((await hourOf("both")).gpus.map(({ ownUsedBytes }) => ownUsedBytes.at(-1))).toEqual([0, 0]);
    // It is long, so it is left out unless it is asked for.
    const { json: brief } = await api.call("listGpus", {}, { as: "owner" });
    expect(brief[0]).not.toHaveProperty("history");
  },
);
