import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { expect, onTestFinished } from "vitest";
import { openGpus } from "../../src/host/gpus/discovery.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { verifies } from "../verifies.ts";

const MIB = 2 ** 20;

verifies("gpus.found", "readings name the GPU that nvidia-smi names", async (context) => {
  context.skip(!existsSync("/dev/nvidiactl"), "NOT TESTED: this machine has no NVIDIA GPU");
  const log = createLog("silent");
  const gpus = await openGpus({ kind: "all" }, { python: "python3", clock: systemClock, log });
  onTestFinished(() => gpus.close());
  const query = "--query-gpu=uuid,index,name,pci.bus_id,memory.total,mig.mode.current,driver_version";
  const answer = execFileSync("nvidia-smi", [query, "--format=csv,noheader,nounits"], { encoding: "utf8" });
  const rows = answer
    .trim()
    .split("\n")
    .map((line) => line.split(", "));
  const whole = rows.filter((row) => row[5] !== "Enabled");
  const { driver, trouble, gpus: found } = gpus.current();
  expect({ driver, trouble }).toEqual({ driver: rows[0]?.[6], trouble: null });
  const own = found.filter(({ isMig }) => !isMig);
  expect(
    own.map(({ uuid, index, name, busId, memoryBytes }) => [
      uuid,
      String(index),
      name,
      busId,
      String(Math.round(memoryBytes / MIB)),
    ]),
  ).toEqual(whole.map((row) => row.slice(0, 5)));
  for (const { files, fault } of found) {
    expect(fault).toBeNull();
    for (const node of files) expect([node, existsSync(node)]).toEqual([node, true]);
  }
  await gpus.look();
  for (const { usedBytes, freeBytes, processes } of gpus.readings()) {
    expect(usedBytes).not.toBeNull();
    expect(freeBytes).toBeGreaterThan(0);
    expect(processes).not.toBeNull();
  }
});
