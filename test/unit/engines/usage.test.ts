import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { usageOf } from "../../../src/engines/local/usage.ts";

const TOP = 100;

type Told = {
  readonly parent: number;
  /** Its own in user and kernel mode, then those of its buried children. */
  readonly ticks?: readonly [number, number, number, number];
  readonly pages?: number;
  /** By thread. */
  readonly children?: readonly (readonly number[])[];
  readonly threads?: number;
};

/** A place where the kernel tells what the test says. */
function machine(told: Readonly<Record<number, Told>>): string {
  const proc = mkdtempSync(path.join(tmpdir(), "proc-"));
  onTestFinished(() => rmSync(proc, { recursive: true }));
  for (const [
    pid,
    { parent, ticks = [0, 0, 0, 0], pages = 0, children = [[]], threads = children.length },
  ] of Object.entries(told)) {
    const zeros = (count: number): string => Array(count).fill("0").join(" ");
    for (const [place, each] of children.entries()) {
      const thread = path.join(proc, pid, "task", `${Number(pid) + place}`);
      mkdirSync(thread, { recursive: true });
      writeFileSync(path.join(thread, "children"), each.map((child) => `${child} `).join(""));
    }
    const fields = `S ${parent} ${zeros(9)} ${ticks.join(" ")} ${zeros(2)} ${threads} ${zeros(3)} ${pages} ${zeros(3)}`;
    writeFileSync(path.join(proc, pid, "stat"), `${pid} (a ) name) ${fields}\n`);
  }
  return proc;
}

/** Two forks of a template, each below a keeper of its own. */
const FORKS = {
  1: { parent: 0 },
  [TOP]: { parent: 1, children: [[200]] },
  200: { parent: TOP, ticks: [1_000, 0, 0, 0], pages: 1_000, children: [[300, 400]] },
  // One that it adopted is dead and buried.
  300: { parent: 200, ticks: [0, 0, 5, 6], pages: 1_000, children: [[301, 309]] },
  301: { parent: 300, ticks: [1, 2, 3, 4], pages: 10, children: [[], [302], []] },
  302: { parent: 301, ticks: [10, 20, 0, 0], pages: 100 },
  309: { parent: 300, ticks: [100, 0, 0, 0], pages: 7 },
  400: { parent: 200, children: [[401]] },
  401: { parent: 400, ticks: [7, 0, 0, 0], pages: 1 },
} as const satisfies Record<number, Told>;

test("a replica is all that lives below its keeper, and the time of those that have ended", async () => {
  const proc = machine(FORKS);
  expect(await usageOf(301, TOP, proc)).toEqual({ cpuMs: 1_510, residentBytes: 117 * 4096 });
  expect(await usageOf(401, TOP, proc)).toEqual({ cpuMs: 70, residentBytes: 4096 });
});

test("nothing is told of a process that is not below the one we started, or has ended", async () => {
  const proc = machine(FORKS);
  for (const pid of [1, TOP, 999]) expect([pid, await usageOf(pid, TOP, proc)]).toEqual([pid, null]);
  expect(await usageOf(301, 400, proc)).toBeNull();
});

test("of a process with many threads, the children of its first one are found", async () => {
  const proc = machine({
    1: { parent: 0 },
    [TOP]: { parent: 1, children: [[301]] },
    301: { parent: TOP, threads: 65, children: [[302], [303]] },
    302: { parent: 301, pages: 1 },
    303: { parent: 301, pages: 10 },
  });
  expect(await usageOf(301, TOP, proc)).toEqual({ cpuMs: 0, residentBytes: 4096 });
});

test("one that ends meanwhile is left out, and of very many only some are looked at", async () => {
  const children = Array.from({ length: 100 }, (_, place) => 1_000 + place);
  const many = Object.fromEntries(children.map((pid) => [pid, { parent: 301, pages: 1 }]));
  const proc = machine({
    ...many,
    1: { parent: 0 },
    [TOP]: { parent: 1, children: [[301]] },
    301: { parent: TOP, pages: 1, children: [[998, 999, ...children]] },
  });
  // Itself, two that are gone, and 61 more.
  expect(await usageOf(301, TOP, proc)).toEqual({ cpuMs: 0, residentBytes: 62 * 4096 });
});
