import { expect, test } from "vitest";
import type { Engine, Exit, ReplicaStart, SeatOwner, Workload } from "../../../src/engines/engine.ts";
import type { Home } from "../../../src/engines/home.ts";
import { Seats } from "../../../src/replicas/seats.ts";

const WORKLOAD: Workload = {
  version: { id: "v", appNumber: 1, bundleBlob: null, environmentBlob: null, environmentTag: null },
  projectId: "p-one",
  bundle: "bundles/one",
  environment: null,
  python: null,
  variables: {},
  concurrency: 1,
  ignoreExtra: false,
  maxResultBytes: 1,
  maxChunkBytes: 1,
  mayFork: true,
  limits: { memoryBytes: null, cpus: null, cpuShare: 2 },
  network: true,
  containerRuntime: null,
  unixSockets: false,
  gpus: null,
  graceMs: 0,
  server: null,
};

type Played = { readonly workload: Workload; readonly owner: SeatOwner; readonly told: string[] };

/** Seats whose engine a test plays. */
function playedSeats(replicasPerSeat = Number.POSITIVE_INFINITY) {
  const opened: Played[] = [];
  const ends = new Map<string, () => void>();
  const handling = { mayFork: true, hidesOthers: true };
  const engine: Engine = {
    name: "played",
    gpuHandling: () => handling,
    replicasPerSeat,
    serve: () => {
      throw new Error("no server is played here");
    },
    open: (workload, keepMs, _home, owner) => {
      const told = [`kept for ${keepMs}`];
      opened.push({ workload, owner, told });
      return {
        start: ({ id }) => {
          told.push(`start ${id}`);
          const { promise, resolve } = Promise.withResolvers<Exit>();
          ends.set(id, () => resolve({ detail: "ended", initFailure: null }));
          return { exited: promise, kill: () => {}, vitals: () => null, usage: async () => null };
        },
        keepFor: (ms) => void told.push(`kept for ${ms}`),
        leave: () => void told.push("left"),
        close: async () => void told.push("closed"),
      };
    },
  };
  const events = { onLog: () => {}, onFault: () => {}, onSilence: () => {}, onError: () => {} };
  // oxlint-disable-next-line no-unsafe-type-assertion
  const seats = new Seats(engine, {} as Home, WORKLOAD, 7, events);
  /** Ends a replica, and lets everybody learn of it. */
  const end = async (id: string): Promise<void> => {
    ends.get(id)?.();
    await Promise.resolve();
  };
  return { seats, opened, end, handling };
}

const replica = (id: string): ReplicaStart => ({ id, ticket: `ticket of ${id}` });

test("all replicas of a version sit where its template does", () => {
  const { seats, opened } = playedSeats();
  expect(opened).toEqual([]);
  seats.start(replica("a"));
  seats.start(replica("b"));
  expect(opened.map(({ told }) => told)).toEqual([["kept for 7", "start a", "start b"]]);
});

test("once a template may not fork, each replica has a seat of its own", () => {
  const { seats, opened } = playedSeats();
  seats.start(replica("a"));
  opened[0]?.owner.onSingle();
  opened[0]?.owner.onOver();
  opened[0]?.owner.elsewhere(replica("b"));
  seats.start(replica("c"));
  expect(opened.map(({ workload, told }) => [workload.mayFork, told.slice(1)])).toEqual([
    [true, ["start a"]],
    [false, ["start b"]],
    [false, ["start c"]],
  ]);
});

test("what a dead template had not forked starts from a new one, and after the close nothing starts", async () => {
  const { seats, opened } = playedSeats();
  seats.start(replica("a"));
  opened[0]?.owner.onOver();
  opened[0]?.owner.elsewhere(replica("a"));
  await seats.close();
  opened[1]?.owner.elsewhere(replica("a"));
  seats.start(replica("b"));
  expect(opened.map(({ workload, told }) => [workload.mayFork, told.slice(1)])).toEqual([
    [true, ["start a", "closed"]],
    [true, ["start a", "closed"]],
  ]);
});

test("the same workload keeps its seat, another one leaves it", () => {
  const { seats, opened } = playedSeats();
  seats.start(replica("a"));
  seats.update({ ...WORKLOAD, variables: {} }, 8);
  seats.start(replica("b"));
  seats.update({ ...WORKLOAD, variables: { KEY: "other" } }, 9);
  seats.start(replica("c"));
  expect(opened.map(({ told }) => told)).toEqual([
    ["kept for 7", "start a", "kept for 8", "start b", "left"],
    ["kept for 9", "start c"],
  ]);
  expect(opened[1]?.workload.variables).toEqual({ KEY: "other" });
});

test("a seat that is over is not started in again, and all that is left is closed", async () => {
  const { seats, opened } = playedSeats();
  seats.start(replica("a"));
  opened[0]?.owner.onOver();
  seats.start(replica("b"));
  opened[0]?.owner.onEnded();
  await seats.close();
  expect(opened.map(({ told }) => told.slice(1))).toEqual([["start a"], ["start b", "closed"]]);
});

test("a seat holds only so many; the fullest with room gets the next, and one empty seat is kept", async () => {
  const { seats, opened, end } = playedSeats(2);
  for (const id of ["a", "b", "c", "d", "e"]) seats.start(replica(id));
  expect(opened.map(({ told }) => told.slice(1))).toEqual([
    ["start a", "start b"],
    ["start c", "start d"],
    ["start e"],
  ]);
  await end("a");
  await end("e");
  seats.start(replica("f"));
  expect(opened[0]?.told.at(-1)).toBe("start f");
  await end("c");
  await end("d");
  // The third is empty already.
  expect(opened.map(({ told }) => told.at(-1))).toEqual(["start f", "left", "start e"]);
  seats.start(replica("g"));
  seats.update({ ...WORKLOAD, variables: { KEY: "other" } }, 9);
  expect(opened.map(({ told }) => told.at(-1))).toEqual(["left", "left", "left"]);
});

test("a workload that gets a GPU, which may not be forked, is not forked from then on", () => {
  const { seats, opened, handling } = playedSeats();
  seats.start(replica("a"));
  handling.mayFork = false;
  seats.start(replica("b"));
  expect(opened.map(({ workload, told }) => [workload.mayFork, ...told.slice(1)])).toEqual([
    [true, "start a"],
    [false, "start b"],
  ]);
});
