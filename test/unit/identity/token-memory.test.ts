import { expect, test } from "vitest";
import { TokenMemory } from "../../../src/identity/tokens.ts";

const remembered = (token: string, holders = 0) => ({ token, holders });

test("the one that was remembered first is forgotten first, and only when there is no room", () => {
  const memory = new TokenMemory<ReturnType<typeof remembered>>(3);
  const given = ["a", "b", "c", "d", "e"].map((token) =>
    memory.add(remembered(token)).map((each) => each.token),
  );
  expect(given).toEqual([[], [], [], ["a"], ["b"]]);
  expect(Array.from(memory.all(), ({ token }) => token)).toEqual(["c", "d", "e"]);
  expect([memory.get("a"), memory.get("c")?.token]).toEqual([undefined, "c"]);
});

test("what something is open by is kept, whatever comes, until nothing is", () => {
  const memory = new TokenMemory<ReturnType<typeof remembered>>(100);
  const held = Array.from({ length: 60 }, (_, i) => remembered(`held ${i}`, 1));
  for (const each of held) memory.add(each);
  for (let i = 0; i < 1_000; i++) memory.add(remembered(`passer-by ${i}`));
  expect(held.filter(({ token }) => !memory.get(token))).toEqual([]);
  // A few more than there is room for, never many.
  expect([...memory.all()].length).toBeLessThan(120);
  for (const each of held) each.holders = 0;
  for (let i = 0; i < 1_000; i++) memory.add(remembered(`another ${i}`));
  expect(held.filter(({ token }) => memory.get(token))).toEqual([]);
});

test("when all of them are held, there is room for more", () => {
  const memory = new TokenMemory<ReturnType<typeof remembered>>(10);
  for (let i = 0; i < 50; i++) expect(memory.add(remembered(`held ${i}`, 1))).toEqual([]);
  expect([...memory.all()].length).toBe(50);
});
