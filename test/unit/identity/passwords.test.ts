import { expect, test } from "vitest";
import { Passwords } from "../../../src/identity/passwords.ts";
import { Seal } from "../../../src/kit/seal.ts";

const seal = new Seal(Buffer.alloc(32, 7));
const LOW = { N: 2 ** 10, r: 8, p: 1 };

test("a password is known again, in either composition, and no other one is", async () => {
  const passwords = new Passwords(seal, LOW);
  const sealedPassword = await passwords.close("u-1", "caf\u00e9 au lait");
  const person = { id: "u-1", sealedPassword };
  expect(await passwords.matches(person, "cafe\u0301 au lait")).toBe(true);
  expect(await passwords.matches(person, "cafe au lait")).toBe(false);
  expect(await passwords.matches(person, "")).toBe(false);
  expect(await passwords.matches(null, "caf\u00e9 au lait")).toBe(false);
  expect(await passwords.matches({ id: "u-2", sealedPassword: null }, "")).toBe(false);
});

test("what is stored is different each time, moves to nobody else, and outlives a change of the cost", async () => {
  const passwords = new Passwords(seal, LOW);
  const [one, two] = [
    await passwords.close("u-1", "the same one"),
    await passwords.close("u-1", "the same one"),
  ];
  expect(one.equals(two)).toBe(false);
  await expect(passwords.matches({ id: "u-2", sealedPassword: one }, "the same one")).rejects.toThrow(
    /authenticate/,
  );
  const dearer = new Passwords(seal, { N: 2 ** 11, r: 8, p: 2 });
  expect(await dearer.matches({ id: "u-1", sealedPassword: one }, "the same one")).toBe(true);
});

test("a crowd is sent away instead of waiting for ever, and those who wait are served", async () => {
  const passwords = new Passwords(seal, LOW);
  const results = await Promise.allSettled(Array.from({ length: 40 }, () => passwords.matches(null, "x")));
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(32);
  const refused = results.find((result) => result.status === "rejected");
  expect(refused?.reason).toMatchObject({ code: "too_many_requests" });
  expect(await passwords.matches(null, "x")).toBe(false);
});
