import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ALL_THREADS } from "../../../src/engines/engine.ts";
import { ProcessLook } from "../../../src/engines/local/vitals.ts";

const KEEPER = 100;

type Told = { readonly parent?: number; readonly state?: string; readonly ticks?: readonly number[] };

/** A machine whose kernel tells what the test says. */
class Machine {
  readonly proc = mkdtempSync(path.join(tmpdir(), "proc-"));
  nowMs = 0;
  /** How long each look at the clock is after the one before. */
  stepMs = 0;
  readonly look = new ProcessLook(this.proc, () => (this.nowMs += this.stepMs));

  constructor() {
    onTestFinished(() => rmSync(this.proc, { recursive: true }));
  }

  /** A process with a thread for each of `ticks`. */
  add(pid: number, { parent = KEEPER, state = "S", ticks = [1] }: Told = {}): void {
    const sum = ticks.reduce((total, each) => total + each, 0);
    this.#tell(`${pid}`, pid, { state, parent, ticks: sum, threads: ticks.length });
    for (const [place, each] of ticks.entries()) {
      const told = { state, parent, ticks: each, threads: ticks.length };
      this.#tell(`${pid}/task/${pid + place}`, pid + place, told);
    }
  }

  /** The threads that are seen, with what each has used. */
  seen(pid: number): [id: number, usedMs: number][] | null {
    const vitals = this.look.at(pid, KEEPER);
    return vitals && [...vitals.threads].map(([id, { usedMs }]) => [id, usedMs]);
  }

  #tell(
    folder: string,
    id: number,
    { state, parent, ticks, threads }: { state: string; parent: number; ticks: number; threads: number },
  ): void {
    mkdirSync(path.join(this.proc, folder), { recursive: true });
    const zeros = (count: number): string => Array(count).fill("0").join(" ");
    const fields = `${state} ${parent} ${zeros(9)} ${ticks} 0 ${zeros(4)} ${threads} ${zeros(3)}`;
    writeFileSync(path.join(this.proc, folder, "stat"), `${id} (a ) name) ${fields}\n`);
  }
}

test("each thread is seen, and of many only what all have used", () => {
  const machine = new Machine();
  machine.add(1_000, { ticks: [3, 4] });
  expect(machine.seen(1_000)).toEqual([
    [1_000, 30],
    [1_001, 40],
  ]);
  machine.add(2_000, { ticks: Array<number>(64).fill(1) });
  expect(machine.seen(2_000)).toHaveLength(64);
  machine.add(3_000, { ticks: Array<number>(65).fill(2) });
  expect(machine.seen(3_000)).toEqual([[ALL_THREADS, 1_300]]);
});

test("the looks of a round share how many threads they see", () => {
  const machine = new Machine();
  const pids = Array.from({ length: 10 }, (_, place) => 1_000 * (place + 1));
  for (const pid of pids) machine.add(pid, { ticks: Array<number>(60).fill(1) });
  const counts = (): unknown[] => pids.map((pid) => machine.seen(pid)?.length);
  const few = [...Array<number>(8).fill(60), 1, 1];
  expect(counts()).toEqual(few);
  machine.nowMs += 999;
  expect(counts()).toEqual(Array(10).fill(1));
  machine.nowMs += 1;
  expect(counts()).toEqual(few);
});

test("a round whose looks took too long has no more of them", () => {
  const machine = new Machine();
  machine.add(1_000);
  machine.stepMs = 20;
  const looks = (count: number): boolean[] =>
    Array.from({ length: count }, () => machine.seen(1_000) !== null);
  expect(looks(5)).toEqual([true, true, true, false, false]);
  machine.nowMs += 1_000;
  expect(looks(1)).toEqual([true]);
});

test("only what is below the process we started is seen, up to a few steps", () => {
  const machine = new Machine();
  machine.add(1, { parent: 0 });
  machine.add(KEEPER, { parent: 1 });
  machine.add(200, { parent: 1 });
  machine.add(201, { parent: 200 });
  // A template below its keeper, a keeper below that, a replica.
  for (const pid of [300, 301, 302]) machine.add(pid, { parent: pid === 300 ? KEEPER : pid - 1 });
  for (let pid = 400; pid < 420; pid++) machine.add(pid, { parent: pid === 400 ? KEEPER : pid - 1 });
  expect(machine.seen(302)).toEqual([[302, 10]]);
  for (const pid of [1, KEEPER, 200, 201, 419, 9_999]) expect([pid, machine.seen(pid)]).toEqual([pid, null]);
});

test("a stopped one is told as such", () => {
  const machine = new Machine();
  for (const state of ["T", "t", "Z", "X"]) {
    machine.add(1_000, { state });
    expect(machine.look.at(1_000, KEEPER)).toMatchObject({ isStopped: true, threads: new Map() });
  }
  machine.add(1_000, { state: "R" });
  expect(machine.look.at(1_000, KEEPER)?.threads.get(1_000)?.isRunnable).toBe(true);
});
