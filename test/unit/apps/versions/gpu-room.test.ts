import { expect } from "vitest";
import { GpuRoom } from "../../../../src/apps/versions/gpu-room.ts";
import type { LiveApp } from "../../../../src/apps/versions/open-version.ts";
import type { AppConfig } from "../../../../src/model/app-config.ts";
import { withoutPlace } from "../../../../src/host/gpus/minimums.ts";
import type { GpuKind } from "../../../../src/model/gpu.ts";
import { PlayedBroker, playedGpu } from "../../../support/gpus/played-broker.ts";
import { verifies } from "../../../verifies.ts";

const H100 = { model: "H100", memoryBytes: 80e9 };
const T4 = { model: "T4", memoryBytes: 16e9 };

/** An app that asks for so many H100. */
function asking(gpuCount: number, maxReplicas = 1): AppConfig {
  const hardware = { compute: ["H100"], gpuCount };
  return { hardware, scaling: { minReplicas: 0, maxReplicas } } as unknown as AppConfig;
}

/** An app that keeps so many replicas with an H100 each. */
function keeping(minReplicas: number): AppConfig {
  return { ...asking(1), scaling: { minReplicas, maxReplicas: 2 } } as unknown as AppConfig;
}

/** The room on a machine with a T4, or with nothing, beside nodes with those GPUs. */
function roomBeside(others: readonly (readonly GpuKind[])[], own = [playedGpu(0, "T4", 16e9)]): GpuRoom {
  const gpus = { ...new PlayedBroker(...own).opened(), others: () => others };
  return new GpuRoom(gpus, false, () => []);
}

verifies("nodes.gpus", "an author is told that the app moves, and if its max_replicas fit on no node", () => {
  const room = roomBeside([[T4], [H100, H100], [H100]]);
  const moves = "this machine has no H100: the app is not checked, and moves to a node that can serve it";
  expect([room.isForAnotherNode(asking(1)), room.warnings(asking(1, 2))]).toEqual([true, [moves]]);
  expect(room.warnings(asking(1, 3))).toEqual([
    moves,
    "max_replicas = 3, but the GPUs of any node have room for 2 replicas",
  ]);
  expect([room.isForAnotherNode(asking(0)), room.never(asking(0))]).toEqual([false, null]);
});

verifies(
  "gpu.cpu",
  "an app that names the CPU as well runs on it where no GPU of its list is, unwarned",
  () => {
    const hardware = { compute: ["H100", "CPU"], gpuCount: 1 };
    const either = { hardware, scaling: { minReplicas: 1, maxReplicas: 2 } } as unknown as AppConfig;
    const room = (others: readonly (readonly GpuKind[])[], own?: ReturnType<typeof playedGpu>[]) => {
      const there = roomBeside(others, own);
      const app = { projectId: "p-one", name: "app" };
      const warnings = there.warnings(either);
      return [there.never(either), warnings, there.isForAnotherNode(either), there.refusal(app, either)];
    };
    const onCpu = [null, [], false, null];
    expect(room([])).toEqual(onCpu);
    expect(room([[T4]], [])).toEqual(onCpu);
    const few = "max_replicas = 2, but the GPUs of this machine have room for 1 replica";
    expect(room([], [playedGpu(0)])).toEqual([null, [few], false, null]);
    const never = "this machine has no H100";
    const moves = `${never}: the app is not checked, and moves to a node that can serve it`;
    expect(room([[H100, H100]])).toEqual([never, [moves], true, null]);
  },
);

verifies("nodes.gpus.none", "an author is told what the nodes have if none can serve the app", () => {
  const fails = "calls will fail with no_gpu_free: this machine has no H100";
  const beside = (others: readonly (readonly GpuKind[])[]) => roomBeside(others).warnings(asking(3));
  expect(beside([])).toEqual([fails]);
  expect(beside([[]])).toEqual([`${fails}; no other node can serve it either: they have no GPU`]);
  expect(beside([[H100, H100], [T4]])).toEqual([
    `${fails}; no other node can serve it either: they have 2 × H100 (75 GB); T4 (15 GB)`,
  ]);
  // Without any GPU, apps run on the CPU.
  const none = roomBeside([[], []], []);
  expect([none.never(asking(1)), none.warnings(asking(1)), none.isForAnotherNode(asking(1))]).toEqual([
    null,
    [],
    false,
  ]);
});

verifies("gpu.minimums", "of two deploys at the same moment one counts what the other is to keep", () => {
  const gpus = new PlayedBroker(playedGpu(0), playedGpu(1)).opened();
  const served = { app: { projectId: "p-one", name: "chat" }, version: { config: keeping(1) } };
  const room = new GpuRoom(gpus, false, () => [served as unknown as LiveApp]);
  const named = (name: string) => ({ projectId: "p-one", name });
  const why = (name: string, config: AppConfig) => room.refusal(named(name), config);
  expect(why("voice", keeping(1))).toBeNull();
  const leave = room.keep(named("voice"), keeping(1));
  const none = "min_replicas = 1 of vision does not fit on the GPUs of this machine beside those of";
  expect(why("vision", keeping(1))).toBe(`${none} chat (min_replicas = 1), voice (min_replicas = 1)`);
  // Not beside what it keeps itself, nor twice.
  expect(why("voice", keeping(1))).toBeNull();
  leave();
  expect(why("vision", keeping(1))).toBeNull();
  // Of an app that is being changed the larger counts, whether the change succeeds or not.
  const shrink = room.keep(named("chat"), keeping(0));
  const grow = room.keep(named("chat"), keeping(2));
  expect(why("vision", keeping(1))).toBe(`${none} chat (min_replicas = 2)`);
  grow();
  expect([why("vision", keeping(1)), why("vision", keeping(2))?.slice(-24)]).toEqual([
    null,
    " chat (min_replicas = 1)",
  ]);
  shrink();
});

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
