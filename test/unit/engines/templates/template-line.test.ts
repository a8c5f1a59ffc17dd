import { expect, test } from "vitest";
import { IdleTemplates } from "../../../../src/engines/templates/template-line.ts";

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
