import { PassThrough } from "node:stream";
import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import type { Exit, ReplicaStart, Vitals } from "../../../../src/engines/engine.ts";
import { IdleTemplates, TemplateLine } from "../../../../src/engines/templates/template-line.ts";
import { HandClock } from "../../../support/clocks.ts";
import { madeGpu } from "../../../support/gpus/played-gpus.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

/** A replica with the GPU of that number. */
function replica(index: number): ReplicaStart {
  const files = [`/dev/nvidia${index}`];
  const gpu = madeGpu(index, { files });
  const gpus = {
    grant: { gpus: [gpu], memoryBytes: null },
    all: ["/dev/nvidia0", "/dev/nvidia1"],
    files,
    variables: { GPU: `${index}` },
  };
  return { id: `r-${index}`, ticket: `t-${index}`, gpus };
}

/** A template of a seat with GPUs, whose process a test plays. */
function playedLine() {
  const told: string[] = [];
  const { promise: exited, resolve: exit } = Promise.withResolvers<Exit>();
  const elsewhere = Promise.withResolvers<Exit>();
  const clock = new HandClock();
  const shows: PromiseWithResolvers<void>[] = [];
  const look: { now: Vitals | null } = { now: null };
  const process = {
    exited,
    kill: () => void told.push("killed"),
    vitals: () => look.now,
    usage: async () => null,
    residentBytes: async () => 0,
    showGpus: async (files: readonly string[]) => {
      told.push(`shows ${files.join(" ") || "nothing"}`);
      const show = Promise.withResolvers<void>();
      shows.push(show);
      await show.promise;
    },
  };
  const nothing = (): void => {};
  const line = new TemplateLine(
    process,
    clock,
    new IdleTemplates(),
    60_000,
    {
      onReady: nothing,
      onSingle: nothing,
      elsewhere: ({ id }) => {
        told.push(`${id} goes elsewhere`);
        const { promise } = elsewhere;
        return { exited: promise, kill: nothing, vitals: () => null, usage: async () => null };
      },
      onOver: nothing,
      onFault: (fault) => told.push(fault),
      onSilence: nothing,
      onError: (error) => told.push(String(error)),
    },
    replica(0),
  );
  const socket = new PassThrough();
  const orders = new PassThrough();
  orders.on("data", (data: Buffer) => told.push(...data.toString().trim().split("\n")));
  const home = Object.assign(socket, { write: (text: string) => orders.write(text) });
  line.template.attach(home as unknown as Socket);
  const says = (message: object): void => void socket.push(`${JSON.stringify(message)}\n`);
  const ready = (): void => says({ ready: { pid: 1, forks: true, reason: null, functions: [] } });
  const hears = (what: string) => until(`it was told: ${what}`, () => told.includes(what));
  /** The seat has done what it was asked last. */
  const shown = async (problem: string | null = null): Promise<void> => {
    await until("it is asked", () => shows.length > 0);
    const show = shows.shift();
    if (problem === null) show?.resolve();
    else show?.reject(new Error(problem));
  };
  return { line, told, exit, says, ready, hears, shown, clock, look, elsewhere };
}

verifies(
  "gpu.template",
  "a fork is made when its GPU can be seen, and the last fork's end hides all",
  async () => {
    const { line, told, says, ready, hears, shown } = playedLine();
    const first = line.start(replica(0));
    ready();
    await hears("shows /dev/nvidia0");
    expect(told).toHaveLength(1);
    await shown();
    await hears(
      '{"fork":{"id":"r-0","ticket":"t-0","gpus":{"files":["/dev/nvidia0"],"variables":{"GPU":"0"}}}}',
    );
    line.start(replica(1));
    await hears("shows /dev/nvidia0 /dev/nvidia1");
    await shown();
    await hears(
      '{"fork":{"id":"r-1","ticket":"t-1","gpus":{"files":["/dev/nvidia1"],"variables":{"GPU":"1"}}}}',
    );
    for (const id of ["r-0", "r-1"]) says({ forked: { id } });
    says({ exited: { id: "r-0", code: 0 } });
    let isGone = false;
    void first.gone?.then(() => (isGone = true));
    await hears("shows /dev/nvidia1");
    // Until it is hidden, the template could open it.
    expect(isGone).toBe(false);
    await shown();
    await first.gone;
    says({ exited: { id: "r-1", code: 0 } });
    await hears("shows nothing");
  },
);

verifies("gpu.template", "a replica whose GPU was found after the import has another template", async () => {
  const { line, told, says, ready, hears, shown } = playedLine();
  line.start(replica(0));
  ready();
  await shown();
  says({ forked: { id: "r-0" } });
  line.start(replica(2));
  await hears("r-2 goes elsewhere");
  // It ends with its last replica.
  says({ exited: { id: "r-0", code: 0 } });
  await hears("killed");
  expect(told.filter((each) => each.includes("nvidia2"))).toEqual([]);
});

verifies("gpu.template", "a replica that gets its GPUs after its template has ended starts elsewhere", () => {
  const { line, told } = playedLine();
  line.start(replica(0)).kill();
  expect(told).toEqual(["killed"]);
  line.start(replica(1));
  expect(told).toEqual(["killed", "r-1 goes elsewhere"]);
});

verifies(
  "gpu.template",
  "a start that is given up before its GPU can be seen forks nothing, and its GPU is hidden again",
  async () => {
    const { line, told, ready, hears, shown } = playedLine();
    const first = line.start(replica(0));
    ready();
    await hears("shows /dev/nvidia0");
    first.kill();
    expect(await first.exited).toMatchObject({ detail: "stopped before it started" });
    let isGone = false;
    void first.gone?.then(() => (isGone = true));
    await shown();
    await hears("shows nothing");
    expect(isGone).toBe(false);
    await shown();
    // The template, which lives on, does not keep it.
    await first.gone;
    expect(told).toEqual(["shows /dev/nvidia0", "shows nothing"]);
  },
);

verifies(
  "gpu.template",
  "an import with the GPUs of a replica that is given up ends, and they are held until then",
  async () => {
    const { line, told, exit } = playedLine();
    const first = line.start(replica(0));
    line.start(replica(1));
    first.kill();
    await first.exited;
    let isGone = false;
    void first.gone?.then(() => (isGone = true));
    await Promise.resolve();
    expect([told, isGone]).toEqual([["killed", "r-1 goes elsewhere"], false]);
    exit({ detail: "killed by SIGKILL", initFailure: null });
    await first.gone;
  },
);

verifies(
  "gpu.template",
  "a replica that gets its GPU when its template is gone starts elsewhere",
  async () => {
    const { line, told, ready, hears } = playedLine();
    const first = line.start(replica(0));
    ready();
    await hears("shows /dev/nvidia0");
    first.kill();
    line.detach();
    line.start(replica(1));
    expect(told).toContain("r-1 goes elsewhere");
  },
);

verifies(
  "gpu.template",
  "a GPU that could not be shown is held until it is hidden: the change may have been half made",
  async () => {
    const { line, exit, ready, hears, shown } = playedLine();
    const first = line.start(replica(0));
    let isGone = false;
    void first.gone?.then(() => (isGone = true));
    ready();
    await hears("shows /dev/nvidia0");
    await shown("process 7 has a GPU open");
    expect(await first.exited).toMatchObject({ detail: "process 7 has a GPU open" });
    await hears("shows nothing");
    await shown("process 7 has a GPU open");
    await hears("Error: process 7 has a GPU open");
    expect(isGone).toBe(false);
    exit({ detail: "killed by SIGKILL", initFailure: null });
    await first.gone;
  },
);

verifies(
  "gpu.close",
  "if the GPU of a replica that has ended cannot be hidden, the others are replaced and their template ends",
  async () => {
    const { line, told, exit, says, ready, hears, shown } = playedLine();
    const [first, second] = [line.start(replica(0)), line.start(replica(1))];
    let [isGone, isLeaving] = [false, false];
    void first.gone?.then(() => (isGone = true));
    void second.leaving?.then(() => (isLeaving = true));
    ready();
    for (const _ of [first, second]) await shown();
    await until("both are forked", () => told.filter((each) => each.startsWith('{"fork"')).length === 2);
    for (const id of ["r-0", "r-1"]) says({ forked: { id } });
    expect(isLeaving).toBe(false);
    says({ exited: { id: "r-0", code: 0 } });
    await hears("shows /dev/nvidia1");
    await shown("process 7 has a GPU open and does not end");
    await second.leaving;
    expect([isGone, told.includes("killed")]).toEqual([false, false]);
    expect(told).toContain("Error: process 7 has a GPU open and does not end");
    // It takes no other, and ends with the last one.
    says({ exited: { id: "r-1", code: 0 } });
    await hears("killed");
    exit({ detail: "killed by SIGKILL", initFailure: null });
    await shown("its agent has ended");
    await Promise.all([first.gone, second.gone]);
  },
);

verifies(
  "gpu.template",
  "the GPU of a replica that a dead template may still fork is held until that has ended",
  async () => {
    const { line, told, exit, says, ready, hears, shown, clock, look, elsewhere } = playedLine();
    const first = line.start(replica(0));
    let isGone = false;
    void first.gone?.then(() => (isGone = true));
    ready();
    await shown();
    await hears(
      '{"fork":{"id":"r-0","ticket":"t-0","gpus":{"files":["/dev/nvidia0"],"variables":{"GPU":"0"}}}}',
    );
    look.now = { atMs: 0, isStopped: true, threads: new Map() };
    await until("it is found dead", () => {
      clock.advance(1_000);
      return told.includes("r-0 goes elsewhere");
    });
    elsewhere.resolve({ detail: "exit code 0", initFailure: null });
    await first.exited;
    // It wakes up, and does what it was told.
    says({ forked: { id: "r-0" } });
    await setImmediate();
    expect(isGone).toBe(false);
    exit({ detail: "killed by SIGKILL", initFailure: null });
    await shown();
    await first.gone;
  },
);
