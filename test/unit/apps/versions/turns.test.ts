import { expect, test } from "vitest";
import { Turns } from "../../../../src/apps/versions/turns.ts";

test("work on one thing goes in order, past failures; on another it does not wait", async () => {
  const turns = new Turns<string>();
  const gate = Promise.withResolvers<void>();
  const seen: string[] = [];
  const first = turns.take("a", async () => {
    await gate.promise;
    seen.push("first");
    throw new Error("failed");
  });
  const second = turns.take("a", async () => seen.push("second"));
  await turns.take("b", async () => seen.push("other"));
  gate.resolve();
  await expect(first).rejects.toThrow("failed");
  await second;
  expect(seen).toEqual(["other", "first", "second"]);
});
