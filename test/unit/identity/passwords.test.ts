import { randomBytes, scryptSync } from "node:crypto";
import { expect, test } from "vitest";
import { Passwords, keptSalt, markHash } from "../../../src/identity/passwords.ts";
import { Seal } from "../../../src/kit/seal.ts";

const seal = new Seal(Buffer.alloc(32, 7));
const LOW = { N: 2 ** 10, r: 8, p: 1 };
const EMAIL = "ada@example.com";

function passwordsOf(kept: Record<string, string> = {}, sealedBy = seal): Passwords {
  return new Passwords({ seal: sealedBy, saltOf: async (email) => kept[email] ?? null }, LOW);
}

test("the same address and password give the same key, in either composition, and no others do", async () => {
  const passwords = passwordsOf();
  const key = await passwords.key(EMAIL, "caf\u00e9 au lait");
  expect(key).toHaveLength(32);
  expect((await passwords.key(EMAIL, "cafe\u0301 au lait")).equals(key)).toBe(true);
  for (const [email, password] of [
    [EMAIL, "cafe au lait"],
    [EMAIL, ""],
    ["eve@example.com", "caf\u00e9 au lait"],
    ["", "caf\u00e9 au lait"],
  ] as const) {
    expect((await passwords.key(email, password)).equals(key)).toBe(false);
  }
  // Without the master key a copy of the database gives nothing to try.
  const elsewhere = passwordsOf({}, new Seal(Buffer.alloc(32, 8)));
  expect((await elsewhere.key(EMAIL, "caf\u00e9 au lait")).equals(key)).toBe(false);
});

test("an address whose hashes were salted at random keeps that salt, and its cost", async () => {
  const cost = { N: 2 ** 11, r: 8, p: 2 };
  const salt = randomBytes(16);
  const hash = scryptSync("the old password", salt, 32, cost);
  const passwords = passwordsOf({ [EMAIL]: keptSalt({ ...cost, salt: salt.toString("base64") }) });
  const key = await passwords.key(EMAIL, "the old password");
  expect(key.equals(markHash(seal, EMAIL, hash))).toBe(true);
});

test("a hash costs what it should where nothing else is said", async () => {
  const costs: object[] = [];
  const passwords = new Passwords({ seal, saltOf: async () => null }, undefined, async (_, __, cost) => {
    costs.push(cost);
    return Buffer.alloc(32);
  });
  await passwords.key(EMAIL, "x");
  // OWASP's figures for 16 MiB.
  expect(costs).toEqual([{ N: 2 ** 14, r: 8, p: 5 }]);
});

test("a crowd is sent away instead of waiting for ever, and those who wait are served", async () => {
  const passwords = passwordsOf();
  const results = await Promise.allSettled(Array.from({ length: 40 }, () => passwords.key(EMAIL, "x")));
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(32);
  const refused = results.find((result) => result.status === "rejected");
  expect(refused?.reason).toMatchObject({ code: "too_many_requests" });
  expect(await passwords.key(EMAIL, "x")).toHaveLength(32);
});
