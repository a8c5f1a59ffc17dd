import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { beforeEach, describe, expect } from "vitest";
import { openGpus } from "../../../src/host/gpus/discovery.ts";
import type { DriverFiles } from "../../../src/host/gpus/driver-files.ts";
import type { GpuSource } from "../../../src/host/gpus/source.ts";
import { createLog } from "../../../src/kit/log.ts";
import { HandClock } from "../../support/clocks.ts";
import { hasCompiler, StandInDriver } from "../../support/gpus/stand-in.ts";
import { answering, bundle, DeploySite } from "../deploys/site.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { until } from "../../support/until.ts";
import { testService, WITHOUT_WALLS } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const H100 = "GPU-11111111-aaaa-bbbb-cccc-000000000000";
const A100 = "GPU-22222222-aaaa-bbbb-cccc-000000000000";
const PARTS = ["MIG-33333333-aaaa-bbbb-cccc-000000000000", "MIG-44444444-aaaa-bbbb-cccc-000000000000"];
const RESET = "stop the service and reset it with nvidia-smi --gpu-reset, or reboot the machine";
const FIRST_RETRY_MS = 30_000;

const faults = (gpus: GpuSource) => gpus.current().gpus.map(({ fault }) => fault);
const uuids = (gpus: GpuSource) => gpus.current().gpus.map(({ uuid }) => uuid);

verifies(
  ["gpus.none", "gpus.fake"],
  "without a GPU there is no process; fake GPUs are told loudly",
  async () => {
    const lines: string[] = [];
    const log = createLog("info", { write: (line: string) => lines.push(line) });
    const clock = new HandClock();
    // Neither this Python nor this library exists: to start a process would be told.
    const host = { python: "/no/such/python", clock, log };
    const files = {
      library: "/no/such/library",
      control: "/no/such/device",
      capabilities: "/no",
      devices: "/no",
      pci: "/no",
    };
    const none = await openGpus({ kind: "none" }, host);
    const all = await openGpus({ kind: "all" }, host, files);
    expect(none.current()).toEqual({ driver: null, gpus: [], trouble: null });
    if (!existsSync("/dev/kfd")) {
      expect(all.current()).toEqual(none.current());
      expect(lines).toEqual([]);
    }
    expect(clock.pending).toBe(0);
    const fake = await openGpus({ kind: "fake", gpus: [{ count: 2, model: "H100", memoryGb: 80 }] }, host);
    expect(fake.current().gpus.map(({ model, files }) => ({ model, files }))).toEqual([
      { model: "H100", files: [] },
      { model: "H100", files: [] },
    ]);
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ level: 40, msg: "THE GPUS OF THIS SERVICE ARE FAKE" });
    const named = await openGpus({ kind: "some", names: ["0"] }, host, files);
    expect(named.current().trouble).not.toBeNull();
  },
);

verifies(
  "gpus.deploy-warning",
  "a service with fake GPUs warns an app that asks for another kind",
  async () => {
    const site = new DeploySite(await testService({}, { gpus: "fake:2xH100:80" }));
    const payload = { compute: "H200", gpuCount: 1 };
    const { buildId } = await site.deploy("app", bundle(answering("x")), payload);
    const log = await site.log("app", buildId);
    expect(log).toContain(
      "warning: calls will fail with no_gpu_free: this machine has no GPU of H200, only H100",
    );
  },
);

describe("a stand-in for the driver", () => {
  beforeEach((context) =>
    context.skip(!hasCompiler(), "NOT TESTED: this host has no C compiler for the stand-in driver"),
  );

  verifies(
    ["gpus.found", "gpus.readings"],
    "GPUs and MIG instances are found, with what they do",
    async () => {
      const driver = new StandInDriver();
      const gpus = await driver.open();
      const part = { index: 1, busId: "00000000:9A:00.0", isMig: true, fault: null };
      expect(gpus.current()).toEqual({
        driver: "580.95.05",
        trouble: null,
        gpus: [
          {
            uuid: H100,
            index: 0,
            model: "H100",
            name: "NVIDIA H100 80GB HBM3",
            memoryBytes: 85_520_809_984,
            busId: "00000000:1B:00.0",
            files: ["/dev/nvidia3"],
            isMig: false,
            fault: null,
          },
          {
            ...part,
            uuid: PARTS[0],
            model: "A100-1g.5gb",
            name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
            memoryBytes: 5_100_273_664,
            files: ["/dev/nvidia4", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"],
          },
          {
            ...part,
            uuid: PARTS[1],
            // The driver does not name its profile.
            model: "A100-1c.2g.10gb",
            name: "NVIDIA A100-SXM4-40GB MIG 1c.2g.10gb",
            memoryBytes: 10_200_547_328,
            files: ["/dev/nvidia4", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"],
          },
        ],
      });
      const processes = [
        { pid: 4711, usedBytes: 2 ** 30 },
        { pid: 4712, usedBytes: null },
        { pid: 4713, usedBytes: 5 },
      ];
      const whole = { uuid: H100, usedBytes: 2_000, freeBytes: 85_520_806_984 };
      const [first, second] = gpus.readings();
      expect(first).toEqual({ ...whole, utilization: 37, watts: 123.456, celsius: 41, processes });
      const unsaid = { utilization: null, watts: null, celsius: null, processes: [] };
      expect(second).toEqual({ uuid: PARTS[0], usedBytes: 2_000, freeBytes: 5_100_270_664, ...unsaid });
      // An old driver counts what it reserves as used; entries for processes have had three lengths.
      for (const entry of ["16", "24", "32"]) {
        driver.set("old");
        driver.set("entry", entry);
        await gpus.look();
        expect([entry, gpus.readings()[0]]).toEqual([entry, { ...first, usedBytes: 3_000 }]);
      }
      expect(driver.logged).toEqual(["info: H100 (80 GB); A100-1g.5gb (5 GB); A100-1c.2g.10gb (10 GB)"]);
    },
  );

  verifies("gpus.choice", "only the GPUs that are chosen are used; a GPU means its instances", async () => {
    const driver = new StandInDriver();
    const chosen = async (...names: string[]) => uuids(await driver.open({ kind: "some", names }));
    expect(await chosen("0")).toEqual([H100]);
    expect(await chosen("1")).toEqual(PARTS);
    expect(await chosen(A100)).toEqual(PARTS);
    expect(await chosen(PARTS[1]!, H100)).toEqual([H100, PARTS[1]]);
    expect(driver.logged.filter((line) => line.startsWith("warn"))).toEqual([]);
    const gpus = await driver.open({ kind: "some", names: ["5"] });
    const trouble = "this machine does not have what MILLRACE_GPUS names: 5";
    expect(gpus.current()).toMatchObject({ gpus: [], trouble });
    expect(driver.logged.at(-1)).toBe(`warn: ${trouble}`);
    await driver.open({ kind: "some", names: ["0", "5"] });
    expect(driver.logged.at(-1)).toBe("warn: H100 (80 GB); MILLRACE_GPUS names what is not there: 5");
  });

  verifies(
    ["gpus.faults", "gpus.retry"],
    "a lost GPU is out of service until a new look at it succeeds",
    async () => {
      const driver = new StandInDriver();
      const gpus = await driver.open();
      const lost =
        "it does not answer on the PCI bus: reboot the machine, and have it repaired if that happens again";
      driver.set("lost");
      let changes = 0;
      gpus.onChange(() => (changes += 1));
      await gpus.look();
      expect(faults(gpus)).toEqual([lost, null, null]);
      expect(changes).toBe(1);
      expect(driver.logged.at(-1)).toContain(`GPU 0 (${H100}): ${lost}`);
      // It is back, which only a new process sees; and that is not tried at once.
      driver.unset("lost");
      await gpus.look();
      expect(faults(gpus)).toEqual([lost, null, null]);
      driver.clock.advance(FIRST_RETRY_MS);
      await gpus.look();
      expect(faults(gpus)).toEqual([null, null, null]);
      // The next time it stays out for twice as long.
      driver.set("lost");
      await gpus.look();
      driver.unset("lost");
      driver.clock.advance(FIRST_RETRY_MS);
      await gpus.look();
      expect(faults(gpus)).toEqual([lost, null, null]);
      driver.clock.advance(FIRST_RETRY_MS);
      await gpus.look();
      expect(faults(gpus)).toEqual([null, null, null]);
    },
  );

  verifies(
    "gpus.faults",
    "what the driver says of a GPU's memory and recovery takes it out of service",
    async () => {
      const texts: readonly (readonly [behaviour: string, value: string, fault: string | null])[] = [
        ["action", "1", `the driver asks for a reset: ${RESET}`],
        ["action", "2", "the driver asks for a reboot of the machine"],
        ["action", "3", "the driver asks to end everything that uses NVLink"],
        ["action", "4", null],
        ["rows", "", "its memory has failed, and no spare rows are left: have it replaced"],
        ["pages", "", `pages of its memory have failed and wait to be retired: ${RESET}`],
      ];
      const driver = new StandInDriver();
      for (const [behaviour, value, fault] of texts) {
        driver.set(behaviour, value);
        expect([behaviour, value, faults(await driver.open())]).toEqual([
          behaviour,
          value,
          [fault, null, null],
        ]);
        driver.unset(behaviour);
      }
    },
  );

  verifies(
    "gpus.faults",
    "a fatal XID error takes a GPU out at once; one that apps cause does not",
    async () => {
      const driver = new StandInDriver();
      const gpus = await driver.open();
      const changed: Promise<void> = new Promise((resolve) => void gpus.onChange(resolve));
      driver.set("xid", "13");
      await until("the driver has reported an error of an app", () => !driver.has("xid"));
      driver.set("xid", "79");
      await changed;
      expect(faults(gpus)).toEqual([`the driver has reported XID 79 (see dmesg): ${RESET}`, null, null]);
    },
  );

  verifies("gpus.faults", "a change of the recovery action is seen at once", async () => {
    const driver = new StandInDriver();
    const gpus = await driver.open();
    const changed: Promise<void> = new Promise((resolve) => void gpus.onChange(resolve));
    driver.set("action", "2");
    driver.set("xid", "154");
    await changed;
    expect(faults(gpus)).toEqual(["the driver asks for a reboot of the machine", null, null]);
  });

  verifies(
    "gpus.faults",
    "a GPU that the driver no longer lists stays known, and is out of service",
    async () => {
      const driver = new StandInDriver();
      const gpus = await driver.open();
      driver.set("unlisted");
      await gpus.look();
      expect(uuids(gpus)).toEqual([H100, ...PARTS]);
      expect(faults(gpus)[0]).toMatch(/^the driver no longer lists it: reboot/);
      expect(gpus.readings()[0]).toMatchObject({ uuid: H100, usedBytes: null, processes: null });
      expect(driver.logged.at(-1)).toContain("GPU 0: GPU is lost");
      driver.unset("unlisted");
      driver.clock.advance(FIRST_RETRY_MS);
      await gpus.look();
      expect(faults(gpus)).toEqual([null, null, null]);
    },
  );

  verifies(
    "gpus.hang",
    "a driver that hangs is given up, and tried again; nothing waits for it",
    async () => {
      const driver = new StandInDriver();
      const gpus = await driver.open();
      driver.set("hang");
      await driver.clock.passDuring(gpus.look());
      const hung = "the driver does not answer: no answer within 20 s";
      expect(faults(gpus)).toEqual([hung, hung, hung]);
      expect(gpus.readings().map(({ freeBytes }) => freeBytes)).toEqual([null, null, null]);
      // Until the next try a look has nothing to wait for.
      await gpus.look();
      driver.unset("hang");
      driver.clock.advance(FIRST_RETRY_MS);
      await gpus.look();
      expect(faults(gpus)).toEqual([null, null, null]);
      expect(gpus.readings()[0]?.freeBytes).toBeGreaterThan(0);
    },
  );

  verifies("gpus.driver", "a driver that does not work is told once, and used when it works", async () => {
    const driver = new StandInDriver();
    driver.set("no-start");
    const gpus = await driver.open();
    const trouble =
      "the NVIDIA driver does not answer: NVML does not start: Driver Not Loaded. Check that nvidia-smi works for the service's user; MILLRACE_GPUS=none has apps run without GPUs";
    expect(gpus.current()).toEqual({ driver: null, gpus: [], trouble, isDown: true });
    driver.clock.advance(FIRST_RETRY_MS);
    await gpus.look();
    expect(driver.logged).toEqual([`warn: ${trouble}`]);
    driver.unset("no-start");
    driver.clock.advance(2 * FIRST_RETRY_MS);
    await gpus.look();
    expect(uuids(gpus)).toEqual([H100, ...PARTS]);
    const missing = await driver.open({ kind: "all" }, { library: "/no/such/library.so" });
    expect(missing.current().trouble).toMatch(
      /answer: \/no\/such\/library\.so cannot be loaded: .*nvidia-smi/,
    );
  });

  verifies(
    "gpus.down",
    "a driver that hangs at the start is not waited for; its GPUs come into service when it answers",
    async () => {
      const driver = new StandInDriver();
      driver.set("hang");
      const opening = driver.open();
      await driver.clock.passDuring(opening);
      const gpus = await opening;
      expect(driver.clock.elapsedMs).toBeLessThan(10_000);
      const starting = expect.stringMatching(/^the NVIDIA driver does not answer: it may still be starting/);
      expect(gpus.current()).toEqual({ driver: null, gpus: [], trouble: starting, isDown: true });
      await driver.clock.passDuring(gpus.look());
      const late = expect.stringMatching(/^the NVIDIA driver does not answer: no answer within 60 s/);
      expect(gpus.current()).toEqual({ driver: null, gpus: [], trouble: late, isDown: true });
      driver.unset("hang");
      driver.clock.advance(FIRST_RETRY_MS);
      expect(await gpus.look()).toBe(true);
      expect(gpus.current()).toMatchObject({ driver: "580.95.05", trouble: null });
      expect([uuids(gpus), faults(gpus)]).toEqual([
        [H100, ...PARTS],
        [null, null, null],
      ]);
      expect(gpus.current()).not.toHaveProperty("isDown");
      expect(driver.logged.map((line) => line.split(/[:;]/)[0])).toEqual(["warn", "warn", "info"]);
    },
  );

  verifies(
    "gpus.down",
    "GPUs are there if their device files are, or if they are on the PCI bus",
    async () => {
      const driver = new StandInDriver();
      driver.set("no-start");
      const isDown = async (files: Partial<DriverFiles>): Promise<boolean> =>
        (await driver.open({ kind: "all" }, files)).current().isDown ?? false;
      const onBus = (vendor: string, kind: string): Partial<DriverFiles> => {
        const device = path.join(driver.files.pci, "0000:1b:00.0");
        mkdirSync(device, { recursive: true });
        writeFileSync(path.join(device, "vendor"), `${vendor}\n`);
        writeFileSync(path.join(device, "class"), `${kind}\n`);
        return { control: "/no", devices: "/no" };
      };
      expect(await isDown({})).toBe(true);
      expect(await isDown({ devices: "/no" })).toBe(false);
      expect(await isDown(onBus("0x10de", "0x030200"))).toBe(true);
      // A sound device, and another vendor's display.
      expect(await isDown(onBus("0x10de", "0x040300"))).toBe(false);
      expect(await isDown(onBus("0x1af4", "0x030000"))).toBe(false);
    },
  );

  verifies(
    "gpus.down",
    "while the driver does not answer, apps that ask for a GPU fail at once, and all others work",
    async () => {
      const driver = new StandInDriver();
      driver.set("no-start");
      const gpus = await driver.open();
      const main = 'import os\n\ndef run():\n    return os.environ["CUDA_VISIBLE_DEVICES"]\n';
      const apps = { plain: { main }, wants: { main, toml: '[hardware]\ncompute = "H100"\n' } };
      const service = await testService(apps, WITHOUT_WALLS, { gpus });
      const site = new DeploySite(service);
      const reason = "the NVIDIA driver does not answer: NVML does not start: Driver Not Loaded";
      expect(await service.call("wants")).toMatchObject({
        status: 503,
        json: { error: { code: "no_gpu_free", message: expect.stringContaining(reason) } },
      });
      expect((await service.call("plain")).json.result).toBe("");
      const { buildId } = await site.deploy("next", bundle(answering("x")), { compute: "ANY", gpuCount: 1 });
      const log = await site.log("next", buildId);
      expect(log).toContain(`warning: calls will fail with no_gpu_free: ${reason}`);
      expect(log).not.toContain("runs on its CPU");
      const management = await ManagementSite.open(service);
      const hardware = () => management.call("listHardware", {}, { as: "run" });
      expect((await hardware()).json).toEqual([
        expect.objectContaining({ name: "CPU", gpuTrouble: expect.stringContaining(reason) }),
      ]);
      driver.unset("no-start");
      driver.clock.advance(FIRST_RETRY_MS);
      await gpus.look();
      expect((await service.call("wants")).json.result).toBe("0");
      const [cpu, ...models] = (await hardware()).json as { name: string }[];
      expect(cpu).not.toHaveProperty("gpuTrouble");
      expect(models.map(({ name }) => name)).toContain("H100");
    },
  );

  verifies("gpus.hang", "a process that dies, or sends what cannot be read, is replaced", async () => {
    const driver = new StandInDriver();
    const gpus = await driver.open();
    driver.set("crash");
    await gpus.look();
    expect(faults(gpus)[0]).toBe("the driver does not answer: its process has ended with SIGABRT");
    driver.unset("crash");
    driver.clock.advance(FIRST_RETRY_MS);
    await gpus.look();
    expect(faults(gpus)).toEqual([null, null, null]);
    const reading = { id: 1, driver: "1", gpus: [], unread: [] };
    const gpu = { uuid: H100, name: "H100", index: 0, bus_id: "", minor: 0, instances: null, fault: null };
    const numbers = {
      total_bytes: 1,
      used_bytes: 1,
      free_bytes: 1,
      utilization: 1,
      watts: 1,
      celsius: 1,
      processes: [],
    };
    const readings = [
      { seen: reading },
      { seen: { ...reading, gpus: [{ ...gpu, ...numbers }] } },
      "nonsense",
      { what: 1 },
      { seen: { ...reading, id: 7 } },
      { seen: { ...reading, driver: "9".repeat(81) } },
      { seen: { ...reading, gpus: [{ ...gpu, ...numbers, uuid: "GPU-../0" }] } },
      { seen: { ...reading, gpus: [{ ...gpu, ...numbers, minor: "0 /etc" }] } },
      { seen: { ...reading, gpus: [{ ...gpu, ...numbers, used_bytes: -1 }] } },
      {
        seen: {
          ...reading,
          gpus: Array.from({ length: 65 }, (_, minor) => ({
            ...gpu,
            ...numbers,
            uuid: `GPU-${minor}`,
            minor,
          })),
        },
      },
      // Each of these would be one GPU that is granted twice.
      { seen: { ...reading, gpus: [0, 1].map((minor) => ({ ...gpu, ...numbers, minor })) } },
      { seen: { ...reading, gpus: [0, 1].map((index) => ({ ...gpu, ...numbers, uuid: `GPU-${index}` })) } },
    ];
    for (const [place, said] of readings.entries()) {
      const found = await driver.open({ kind: "all" }, {}, driver.saying(said));
      const unreadable = expect.stringMatching(/answer: its process sends what cannot be read/);
      const fine = [{ trouble: expect.stringMatching(/^the driver lists no GPU/) }, { trouble: null }];
      expect([place, found.current()]).toMatchObject([place, fine[place] ?? { trouble: unreadable }]);
    }
  });
});
