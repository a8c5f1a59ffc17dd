import { expect } from "vitest";
import { LOST, SAMPLE_GPUS, ToldGpus } from "../../support/gpus/sample-gpus.ts";
import { holders } from "../../support/gpus/holders.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const told = new ToldGpus();
const shared = sharedService(
  {
    hello: {
      main: "def run():\n    return 1\n",
      toml: '[hardware]\ncompute = "H100"\ngpu_memory = 10\n[scaling]\nmin_replicas = 2\nmax_replicas = 2\n',
    },
  },
  WITHOUT_WALLS,
  told.options,
);

/** The cells of each row below the headings. */
function rowsOf(table: string): string[][] {
  const [, ...rows] = table.trimEnd().split("\n");
  return rows.map((row) => row.trim().split(/ {2,}/));
}

verifies(
  ["hardware.cli", "hardware.replicas"],
  "models, GPUs and replicas are tables, and what is wrong is a warning",
  async () => {
    const client = new Client(shared());
    const { projectId } = shared().service.owner;
    await until("both replicas have their GPU", async () => (await holders(shared())).length === 2);
    const [models, gpus, json, containers] = await client.runAll([
      ["hardware"],
      ["hardware", "gpus"],
      ["hardware", "gpus", "--json"],
      ["containers", "list", "hello"],
    ]);
    const [cpu, ...rest] = rowsOf(models?.stdout ?? "");
    const [cores, memory] = cpu?.slice(-2) ?? [];
    expect([cpu, ...rest]).toEqual([
      ["CPU", "–", "–", cores, memory],
      ["H100", "2", "80 GB", cores, memory],
      ["L40S", "1", "45 GB", cores, memory],
    ]);
    const [first, second, third, fourth] = SAMPLE_GPUS.map(({ uuid }) => uuid);
    expect(gpus?.stdout).toMatch(
      /^GPU +MODEL +STATE +MEMORY +USED +GRANTED +LOAD +TEMPERATURE +HELD BY +UUID\n/,
    );
    expect(rowsOf(gpus?.stdout ?? "")).toEqual([
      ["0", "H100", "ok", "85.5 GB", "52.0 GB", "20.0 GB", "87 %", "64 °C", `${projectId}-hello × 2`, first],
      ["1", "H100", "ok", "85.5 GB", "–", "0 B", "–", "–", "–", second],
      ["2", "H100", "out of service", "85.5 GB", "–", "0 B", "–", "–", "–", third],
      ["3", "L40S", "ok", "48.3 GB", "1.0 GB", "0 B", "–", "–", "–", fourth],
    ]);
    expect(gpus?.stderr).toContain(`GPU 2 is out of service: ${LOST}`);
    expect(JSON.parse(json?.stdout ?? "")).toMatchObject([
      { gpus: [{ uuid: first }, {}, { fault: LOST }, {}] },
    ]);
    expect(json?.stderr).toBe("");
    const [row] = rowsOf(containers?.stdout ?? "");
    expect(containers?.stdout).toMatch(/ SETUP +BUILD +GPU\n/);
    expect(row?.at(-1)).toBe(`H100 ${first} (10.0 GB)`);
  },
);

verifies("hardware.cli", "a machine whose driver does not work says why", async () => {
  const client = new Client(shared());
  const before = told.machine;
  told.machine = { driver: null, gpus: [], trouble: "libnvidia-ml.so.1 was not found" };
  const [gpus, models] = await client.runAll([["hardware", "gpus"], ["hardware"]]);
  told.machine = before;
  expect([gpus?.code, rowsOf(gpus?.stdout ?? "")]).toEqual([0, []]);
  expect(gpus?.stderr).toContain("libnvidia-ml.so.1 was not found");
  expect(rowsOf(models?.stdout ?? "")).toHaveLength(1);
});
