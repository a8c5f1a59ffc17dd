import { expect } from "vitest";
import { faultDice } from "../support/dice.ts";
import { GpuStorm } from "../support/gpus/gpu-storm.ts";
import { requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

/** How many things happen. A thousand take some minutes. */
const STEPS = Number(process.env["MILLRACE_GPU_STEPS"] ?? 200);
/** After so many, everything that waits has to end. */
const ROUND = 50;
/** For a step that waits for the deploy of an app on a busy machine. */
const STEP_MS = 2_000;

/** Goes through all steps; fails as soon as something is wrong. */
async function goThrough(isolation: "none" | "userns"): Promise<void> {
  const storm = await GpuStorm.open(faultDice(), isolation);
  for (let step = 1; step <= STEPS; step++) {
    await storm.step();
    if (step % ROUND === 0) await storm.settle();
  }
  await storm.end();
  process.stderr.write(`${isolation}: ${JSON.stringify({ ...storm.done, evictions: storm.evictions })}\n`);
  expect(storm.faults).toEqual([]);
  expect(storm.evictions).toBeGreaterThan(0);
}

verifies(
  ["gpu.safe", "gpu.live", "gpu.release", "gpu.deadlock", "gpu.deploy", "gpu.deploy.failed"],
  "whatever happens to real replicas, no GPU is granted twice or lost, no call is lost, and minimums are reached",
  () => goThrough("none"),
  600_000 + STEPS * STEP_MS,
);

verifies(
  ["gpu.safe", "gpu.live", "gpu.template", "gpu.deadlock"],
  "the same behind walls, where replicas are forks, and where templates and keepers are killed too",
  async (context) => {
    await requireOffered("userns", context);
    await goThrough("userns");
  },
  600_000 + STEPS * STEP_MS,
);
