import { expect } from "vitest";
import { GpuBroker } from "../../../../src/host/gpus/broker.ts";
import { GpuHistory } from "../../../../src/host/gpus/history.ts";
import { NO_GPUS } from "../../../../src/host/gpus/source.ts";
import { createLog } from "../../../../src/kit/log.ts";
import { HandClock } from "../../../support/clocks.ts";
import {
  GB,
  madeGpu,
  matches,
  PlayedGpus,
  PlayedTenant,
  quiet,
  wishFor,
} from "../../../support/gpus/played-gpus.ts";
import { verifies } from "../../../verifies.ts";

const MINUTE_MS = 60_000;

function site() {
  const source = new PlayedGpus([madeGpu(0), madeGpu(1)]);
  const clock = new HandClock();
  const { parentOf } = source;
  const broker = new GpuBroker({
    source,
    parentOf,
    clock,
    log: createLog("silent"),
    matches,
    holdMs: 0,
    sharesAcrossProjects: true,
  });
  const history = new GpuHistory({ source, grants: () => broker.use(), clock });
  const app = (name: string, projectId?: string) => new PlayedTenant(broker, clock, name, projectId);
  /** What a process holds of a GPU, as the driver says from now on. */
  const holds = (uuid: string, pid: number, gb: number): void => {
    source.hold(uuid, pid, gb * GB);
    source.see();
  };
  return { source, clock, broker, history, app, holds };
}

/** The values of the steps in which something was seen, in GB. */
function seen<Key extends string>(
  uses: readonly (Readonly<Record<Key, number | null>> | null)[] | undefined,
  key: Key,
): (number | null)[] {
  return (uses ?? []).flatMap((use) => (use ? [use[key] === null ? null : use[key] / GB] : []));
}

verifies("gpu.history", "the last hour of each GPU is kept, the most of every ten seconds", () => {
  const { clock, history, holds, source } = site();
  const looks = source.looks;
  clock.advance(90 * MINUTE_MS);
  holds("GPU-0", 7, 30);
  history.ofGpus();
  holds("GPU-0", 7, 10);
  clock.advance(15_000);
  const { fromMs, stepMs, gpus } = history.ofGpus();
  expect([clock.now() - fromMs - 359 * stepMs, stepMs]).toEqual([5_000, 10_000]);
  expect([...gpus.keys()]).toEqual(["GPU-0", "GPU-1"]);
  const uses = seen(gpus.get("GPU-0"), "usedBytes");
  expect([uses.length, uses.slice(-3)]).toEqual([360, [0, 30, 10]]);
  expect(source.looks).toBe(looks);

  // What a frozen service did not see is unknown, and what is ahead of a clock that was set back is forgotten.
  clock.nowMs -= 30 * MINUTE_MS;
  expect(seen(history.ofGpus().gpus.get("GPU-0"), "usedBytes").length).toBe(180);
  history.close();
  clock.advance(20 * MINUTE_MS);
  const after = history.ofGpus().gpus.get("GPU-0");
  expect([after?.at(-2), after?.at(-1)]).toEqual([null, { usedBytes: 10 * GB, utilization: null }]);
  expect(clock.pending).toBe(0);
});

verifies("gpu.history", "an app's hour has its GPUs while it had them, and what was its own", async () => {
  const { clock, history, app, holds, source } = site();
  const one = app("one");
  const replicas = [one.start(wishFor(30)), one.start(wishFor(20))];
  await quiet();
  holds("GPU-0", replicas[0]!.pid, 20);
  holds("GPU-0", replicas[1]!.pid, 10);
  holds("GPU-0", 7, 15);
  clock.advance(10_000);
  source.knows = "memory";
  source.see();
  clock.advance(10_000);
  for (const replica of replicas) {
    one.stop(replica);
    one.ends(replica, source);
  }
  await quiet();
  clock.advance(1_000);
  await quiet();
  clock.advance(9_000);
  // Others have it now.
  holds("GPU-0", 7, 70);
  clock.advance(60_000);
  const { gpus } = history.ofApp({ projectId: "p-one", app: "one" });
  expect([...gpus.keys()]).toEqual(["GPU-0"]);
  expect(seen(gpus.get("GPU-0"), "usedBytes").slice(0, 3)).toEqual([45, 45, 45]);
  expect(seen(gpus.get("GPU-0"), "ownUsedBytes")).toContain(30);
  expect(gpus.get("GPU-0")?.at(-1)).toBeNull();
  expect(history.ofApp({ projectId: "p-two", app: "one" }).gpus.size).toBe(0);
  clock.advance(61 * MINUTE_MS);
  expect(history.ofApp({ projectId: "p-one", app: "one" }).gpus.size).toBe(0);
  history.close();
});

verifies("gpu.history", "a machine without GPUs has no timer until one comes", () => {
  const clock = new HandClock();
  const history = new GpuHistory({ source: NO_GPUS, grants: () => [], clock });
  expect([clock.pending, history.ofGpus().gpus.size]).toEqual([0, 0]);
  const source = new PlayedGpus([]);
  const later = new GpuHistory({ source, grants: () => [], clock });
  expect(clock.pending).toBe(0);
  source.change([madeGpu(0)]);
  source.change([madeGpu(0), madeGpu(1)]);
  expect(clock.pending).toBe(1);
  later.close();
  expect([clock.pending, source.listeners]).toEqual([0, 0]);
});

verifies("gpu.evictions", "which app was evicted for which is remembered, the latest of them", async () => {
  const { app, broker, clock, source } = site();
  source.change([madeGpu(0)]);
  const [one, two] = [app("one", "p-one"), app("two", "p-two")];
  let holder = one.start(wishFor(null));
  await quiet();
  for (let turn = 0; turn < 101; turn++) {
    clock.advance(1_000);
    holder.tenant.becomesIdle(holder);
    const next = (holder.tenant === one ? two : one).start(wishFor(null));
    await quiet();
    holder.tenant.ends(holder, source);
    await quiet();
    holder = next;
  }
  const evictions = broker.evictions();
  expect(evictions).toHaveLength(100);
  expect(evictions.at(-1)).toEqual({
    atMs: clock.now(),
    gpus: ["GPU-0"],
    evicted: { app: "one", projectId: "p-one" },
    by: { app: "two", projectId: "p-two" },
  });
});
