import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Engine, Exit, ReplicaStart, SeatOwner, Started } from "../../../src/engines/engine.ts";
import { GrantedEngine } from "../../../src/engines/granted-engine.ts";
import type { Home } from "../../../src/engines/home.ts";
import type { GpuKind } from "../../../src/model/gpu.ts";
import { PlayedBroker, playedGpu } from "../../support/gpus/played-broker.ts";
import { verifies } from "../../verifies.ts";
import { WORKLOAD } from "../../support/kubernetes/sample.ts";

const WISH = { models: ["H100"], count: 1, memoryBytes: null };
const workload = { ...WORKLOAD, gpus: WISH };

/** An engine that grants GPUs of a machine with one, and whose processes a test plays. */
function played(mayFork = true, others: readonly (readonly GpuKind[])[] = [], own = [playedGpu(0)]) {
  const gpus = new PlayedBroker(...own);
  const told: string[] = [];
  const ends = new Map<string, (exit: Exit) => void>();
  const gone = Promise.withResolvers<void>();
  const leaving = Promise.withResolvers<void>();
  const start = ({ id, gpus: own }: ReplicaStart): Started => {
    told.push(`start ${id} with ${own?.variables["CUDA_VISIBLE_DEVICES"] ?? "no GPU"}`);
    const { promise: exited, resolve } = Promise.withResolvers<Exit>();
    ends.set(id, resolve);
    const kill = (): void => resolve({ detail: "killed", initFailure: null });
    return {
      exited,
      kill,
      leaving: leaving.promise,
      gone: gone.promise,
      vitals: () => null,
      usage: async () => null,
    };
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
    serve: () => ({
      exited: new Promise<never>(() => {}),
      kill: () => {},
      pid: 12,
      ancestor: 10,
      askToEnd: () => {},
      place: async () => ({ kind: "nowhere" }) as const,
      usage: async () => null,
    }),
  };
  const engine = new GrantedEngine(inner, { ...gpus.opened(), others: () => others });
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
  return { gpus, told, ends, gone, leave: leaving.resolve, seat, begin, engine };
}

verifies("gpu.release", "GPUs come back when the processes are gone, not when the replica is", async () => {
  const { gpus, begin, ends, gone, told } = played();
  const first = begin("a");
  const second = begin("b");
  await first.granted;
  expect([told, gpus.granted()]).toEqual([["start a with 0"], ["app 0"]]);
  expect([first.obstacle?.(), second.obstacle?.()]).toEqual([null, "H100 is in use"]);
  ends.get("a")?.({ detail: "exit code 0", initFailure: null });
  await first.exited;
  await setImmediate();
  expect(told).toEqual(["start a with 0"]);
  gone.resolve();
  await second.granted;
  expect([told, gpus.granted()]).toEqual([["start a with 0", "start b with 0"], ["app 0"]]);
});

verifies("nodes.gpus", "what another node can serve waits for its app to move there", async () => {
  const far = [[{ model: "H100", memoryBytes: 80e9 }]];
  // Also on a machine without GPUs: it does not run on the CPU.
  for (const own of [[playedGpu(0, "T4")], []]) {
    const { begin, told } = played(true, far, own);
    const waiting = begin("a");
    await setImmediate();
    expect([told, waiting.obstacle?.()]).toEqual([
      [],
      "H100 is in use; the app moves to a node that can serve it",
    ]);
    waiting.kill();
    await waiting.exited;
  }
  const nowhere = await played(true, [[{ model: "L4", memoryBytes: 24e9 }]], []).begin("a").exited;
  expect(nowhere.initFailure?.message).toBe(
    "The app waits for a GPU: this machine has no H100; no other node can serve it either: they have L4 (22 GB).",
  );
  const { begin, told } = played(true, [[]], []);
  begin("a");
  expect(told).toEqual(["start a with no GPU"]);
});

verifies("gpu.close", "a replica with a GPU hears that its place is about to end", async () => {
  const { begin, leave } = played();
  const first = begin("a");
  await first.granted;
  let isLeaving = false;
  void first.leaving?.then(() => (isLeaving = true));
  await setImmediate();
  expect(isLeaving).toBe(false);
  leave();
  await first.leaving;
});

verifies("gpu.queue", "a start that is given up while it waits takes no GPU, and its seat ends", async () => {
  const { gpus, begin, told } = played(false);
  const first = begin("a");
  await first.granted;
  const second = begin("b");
  second.kill();
  expect(await second.exited).toMatchObject({ detail: "stopped before it started" });
  await second.granted;
  expect([told, gpus.entries.size]).toEqual([["start a with 0"], 1]);
  // A seat in which nothing has started has nothing that could end.
  const other = played(false);
  other.gpus.gpus = [playedGpu(0), playedGpu(1)];
  const killed = other.begin("a");
  killed.kill();
  await killed.exited;
  await setImmediate();
  expect([other.told, other.gpus.entries.size]).toEqual([["ended"], 0]);
});

verifies("gpu.template", "a replica that comes from a dead template keeps the GPUs that it has", async () => {
  const { gpus, begin, told } = played();
  const [gpu] = gpus.gpus;
  const own = { grant: { gpus: [gpu!], memoryBytes: null }, all: [], files: [], variables: {} };
  begin("a", { gpus: own });
  expect([told, gpus.entries.size]).toEqual([["start a with no GPU"], 0]);
});

test("a seat that was left while its first replica waited is left once that has started", async () => {
  const { gpus, begin, seat, told } = played();
  await begin("a").granted;
  gpus.gpus = [playedGpu(0), playedGpu(1)];
  told.length = 0;
  const late = begin("b");
  seat.leave();
  await late.granted;
  await setImmediate();
  expect(told).toEqual(["left", "start b with 0", "left"]);
});

verifies("gpu.measured", "all processes of a server count, not only the one that listens", async () => {
  const { gpus, engine } = played();
  const tenancy = { key: "v", app: "app", minReplicas: () => 0, idle: () => [], evict: () => false };
  const server = engine.serve(workload, { onLog: () => {}, onError: () => {}, tenancy });
  await server.granted;
  await setImmediate();
  await server.place();
  expect([...gpus.entries].flatMap(({ pids }) => [...pids])).toEqual([10]);
});

verifies("gpu.none", "without a GPU on the machine nothing is waited for", () => {
  const { gpus, begin, told, engine } = played();
  expect(engine.gpuHandling(workload)).toEqual({ mayFork: false, hidesOthers: true });
  gpus.gpus = [];
  expect(begin("a").granted).toBeUndefined();
  expect(told).toEqual(["start a with no GPU"]);
  expect(engine.gpuHandling(workload).mayFork).toBe(true);
});
