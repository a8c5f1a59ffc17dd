import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Engine, Exit, ReplicaStart, SeatOwner, Started } from "../../../src/engines/engine.ts";
import { GrantedEngine } from "../../../src/engines/granted-engine.ts";
import type { Home } from "../../../src/engines/home.ts";
import { GpuBroker } from "../../../src/host/gpus/broker.ts";
import { FakeGpus } from "../../../src/host/gpus/fake.ts";
import { matches } from "../../../src/host/gpus/source.ts";
import { createLog } from "../../../src/kit/log.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";
import { WORKLOAD } from "../../support/kubernetes/sample.ts";

const WISH = { models: ["H100"], count: 1, memoryBytes: null };
const workload = { ...WORKLOAD, gpus: WISH };

/** What waits where the only GPU is in use. */
const IN_USE = "GPUs: 1 of H100 is wanted, none is free; app app is in use";

/** An engine that grants GPUs of a machine, and whose processes a test plays. */
function played(mayFork = true, count = 1) {
  const source = new FakeGpus([{ count, model: "H100", memoryGb: 80 }]);
  const broker = new GpuBroker({ source, matches, clock: new HandClock(), log: createLog("silent") });
  const granted = () => broker.use().map(({ app, gpu }) => `${app} ${gpu.index}`);
  const told: string[] = [];
  const ends = new Map<string, (exit: Exit) => void>();
  const gone = Promise.withResolvers<void>();
  const start = ({ id, gpus: own }: ReplicaStart): Started => {
    told.push(`start ${id} with ${own?.variables["CUDA_VISIBLE_DEVICES"] ?? "no GPU"}`);
    const { promise: exited, resolve } = Promise.withResolvers<Exit>();
    ends.set(id, resolve);
    const kill = (): void => resolve({ detail: "killed", initFailure: null });
    return { exited, kill, gone: gone.promise, vitals: () => null, usage: async () => null };
  };
  const inner: Engine = {
    name: "played",
    gpuHandling: () => ({ mayFork: false, hidesOthers: true }),
    open: () => ({
      start,
      keepFor: () => {},
      leave: () => void told.push("left"),
      close: async () => void told.push("closed"),
    }),
    serve: () => {
      throw new Error("no server is played here");
    },
  };
  const engine = new GrantedEngine(inner, { current: () => source.current(), broker });
  const nothing = (): void => {};
  const owner: SeatOwner = {
    onLog: nothing,
    onFault: nothing,
    onSilence: nothing,
    onError: nothing,
    onSingle: nothing,
    elsewhere: start,
    onOver: nothing,
    onEnded: () => void told.push("ended"),
    tenancy: { key: "v", app: "app", minReplicas: () => 0, idle: () => [], evict: () => false },
  };
  const seat = engine.open({ ...workload, mayFork }, 0, {} as Home, owner);
  const begin = (id: string, own: Partial<ReplicaStart> = {}) => seat.start({ id, ticket: id, ...own });
  return { source, granted, told, ends, gone, seat, begin, engine };
}

verifies("gpu.release", "GPUs come back when the processes are gone, not when the replica is", async () => {
  const { granted, begin, ends, gone, told } = played();
  const first = begin("a");
  const second = begin("b");
  await first.granted;
  expect([told, granted()]).toEqual([["start a with 0"], ["app 0"]]);
  expect([first.obstacle?.(), second.obstacle?.()]).toEqual([null, IN_USE]);
  ends.get("a")?.({ detail: "exit code 0", initFailure: null });
  await first.exited;
  await setImmediate();
  expect(told).toEqual(["start a with 0"]);
  gone.resolve();
  await second.granted;
  expect([told, granted()]).toEqual([["start a with 0", "start b with 0"], ["app 0"]]);
});

verifies("gpu.queue", "a start that is given up while it waits takes no GPU, and its seat ends", async () => {
  const { granted, begin, told } = played(false);
  const first = begin("a");
  await first.granted;
  const second = begin("b");
  second.kill();
  expect(await second.exited).toMatchObject({ detail: "stopped before it started" });
  await second.granted;
  expect([told, granted()]).toEqual([["start a with 0"], ["app 0"]]);
  // A seat in which nothing has started has nothing that could end.
  const other = played(false, 2);
  const killed = other.begin("a");
  killed.kill();
  await killed.exited;
  await setImmediate();
  expect([other.told, other.granted()]).toEqual([["ended"], []]);
});

verifies("gpu.template", "a replica that comes from a dead template keeps the GPUs that it has", async () => {
  const { source, granted, begin, told } = played();
  const [gpu] = source.current().gpus;
  const own = { grant: { gpus: [gpu!], memoryBytes: null }, all: [], nodes: [], variables: {} };
  begin("a", { gpus: own });
  expect([told, granted()]).toEqual([["start a with no GPU"], []]);
});

test("a seat that was left while its first replica waited is left once that has started", async () => {
  const { begin, seat, told } = played(true, 2);
  await begin("a").granted;
  told.length = 0;
  const late = begin("b");
  seat.leave();
  await late.granted;
  await setImmediate();
  expect(told).toEqual(["left", "start b with 0", "left"]);
});

verifies("gpu.none", "without a GPU on the machine nothing is waited for", () => {
  expect(played().engine.gpuHandling(workload)).toEqual({ mayFork: false, hidesOthers: true });
  const { begin, told, engine } = played(true, 0);
  expect(begin("a").granted).toBeUndefined();
  expect(told).toEqual(["start a with no GPU"]);
  expect(engine.gpuHandling(workload).mayFork).toBe(true);
});
