import { expect } from "vitest";
import { GpuRoom } from "../../../../src/apps/versions/gpu-room.ts";
import type { AppConfig } from "../../../../src/model/app-config.ts";
import { withoutPlace } from "../../../../src/host/gpus/minimums.ts";
import { playedGpu } from "../../../support/played-gpus.ts";
import { verifies } from "../../../verifies.ts";

verifies("gpu.max-replicas", "a deploy places the replicas once, however many there may be", () => {
  const gpus = Array.from({ length: 8 }, (_, index) => playedGpu(index));
  let compared = 0;
  const matches = (): boolean => (compared += 1) > 0;
  const room = new GpuRoom(
    {
      current: () => ({ driver: null, gpus, trouble: null }),
      broker: {
        request: () => {
          throw new Error("nothing starts here");
        },
        never: () => null,
        fits: (minimums) => withoutPlace(minimums, gpus, { matches, sharesAcrossProjects: false }),
      },
    },
    false,
    () => [],
  );
  const hardware = { cpu: 1, memoryGb: 1, compute: ["H100"], gpuCount: 1, gpuMemoryGb: 0.9 };
  const config = { hardware, scaling: { minReplicas: 0, maxReplicas: 2_000 } } as unknown as AppConfig;
  expect(room.warnings(config)).toEqual([
    "max_replicas = 2000, but the GPUs of this machine have room for 704 replicas",
  ]);
  // Each GPU once: hundreds of thousands of comparisons would stop the service for seconds.
  expect(compared).toBe(gpus.length);
});
