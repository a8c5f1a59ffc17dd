import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { IdleTemplates } from "../../../src/replicas/process/idle-templates.ts";

/** This process and its parent stand for templates: only their memory is looked at. */
const MINE = process.pid;
const PARENT = process.ppid;

function residentBytes(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * 4096;
}

/** Room for either alone, not for both, whatever they hold by now. */
function roomForOne(): number {
  const bytes = [residentBytes(PARENT), residentBytes(MINE)];
  return Math.max(...bytes) + Math.min(...bytes) / 2;
}

test("idle templates within their share of memory are kept", () => {
  const idle = new IdleTemplates(4 * (residentBytes(MINE) + residentBytes(PARENT)));
  const retired: number[] = [];
  idle.add(MINE, () => retired.push(MINE));
  idle.add(PARENT, () => retired.push(PARENT));
  expect(retired).toEqual([]);
});

test("beyond it the oldest goes, and goes once", () => {
  const idle = new IdleTemplates(roomForOne());
  const retired: number[] = [];
  idle.add(MINE, () => retired.push(MINE));
  idle.add(PARENT, () => retired.push(PARENT));
  expect(retired[0]).toBe(MINE);
  expect(new Set(retired).size).toBe(retired.length);
});

test("one that works again does not count", () => {
  const idle = new IdleTemplates(roomForOne());
  const retired: number[] = [];
  idle.add(MINE, () => retired.push(MINE));
  idle.remove(MINE);
  idle.add(PARENT, () => retired.push(PARENT));
  expect(retired).not.toContain(MINE);
});

test("a template that has just ended counts for nothing", () => {
  const idle = new IdleTemplates(1);
  expect(() => idle.add(2 ** 22 + 1, () => {})).not.toThrow();
});
