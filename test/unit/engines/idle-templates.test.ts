import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { IdleTemplates } from "../../../src/engines/templates/idle-templates.ts";
import { residentBelow } from "../../../src/host/process-tree.ts";

const HELD_BYTES = 32 * 1024 * 1024;
const HOLD = `const held = Buffer.alloc(${HELD_BYTES}, 1)`;

function played(maxBytes: number) {
  const idle = new IdleTemplates(maxBytes);
  const retired: string[] = [];
  const owners = { one: {}, two: {}, three: {} };
  const add = (name: keyof typeof owners, bytes: number): void =>
    idle.add(owners[name], bytes, () => retired.push(name));
  return { add, remove: (name: keyof typeof owners) => idle.remove(owners[name]), retired };
}

test("idle templates within their share of memory are kept", () => {
  const { add, retired } = played(100);
  add("one", 50);
  add("two", 50);
  expect(retired).toEqual([]);
});

test("beyond it the oldest goes, and goes once", () => {
  const { add, retired } = played(100);
  add("one", 60);
  add("two", 60);
  add("three", 10);
  expect(retired).toEqual(["one"]);
});

test("one that works again does not count", () => {
  const { add, remove, retired } = played(100);
  add("one", 60);
  remove("one");
  add("two", 60);
  expect(retired).toEqual([]);
});

test("what a template holds is told by the kernel of those below its keeper, and of nobody else", async () => {
  // The kernel counts roughly: it may say of a small program that it holds nothing.
  const child = spawn(process.execPath, ["-e", `${HOLD}; console.log("held"); process.stdin.resume()`]);
  await once(child.stdout, "data");
  expect(residentBelow(process.pid)).toBeGreaterThan(HELD_BYTES);
  expect(residentBelow(child.pid ?? 0)).toBe(0);
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(residentBelow(child.pid ?? 0)).toBe(0);
});
