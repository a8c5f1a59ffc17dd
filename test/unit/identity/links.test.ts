import { expect, test } from "vitest";
import { Links } from "../../../src/identity/links.ts";
import { Seal } from "../../../src/kit/seal.ts";
import { altered } from "../../support/altered.ts";
import { HandClock } from "../../support/clocks.ts";

test("a link opens only what it was made for, here, and in time", () => {
  const clock = new HandClock(1_000);
  const links = new Links(new Seal(Buffer.alloc(32, 1)), clock);
  const elsewhere = new Links(new Seal(Buffer.alloc(32, 2)), clock);
  const person = { id: "u-1", updatedAt: 5 };
  const [setup, password] = [links.setup(), links.password(person, "operator")];
  expect([links.isSetup(setup), links.isSetup(password), elsewhere.isSetup(setup)]).toEqual([
    true,
    false,
    false,
  ]);
  expect(links.readPassword(password)).toEqual(person);
  expect([links.readPassword(setup), elsewhere.readPassword(password)]).toEqual([null, null]);
  for (const bad of ["", "x", password.slice(0, -2), altered(password)]) {
    expect(links.readPassword(bad)).toBeNull();
  }
  const mailed = links.password(person, "mail");
  const proof = links.proof({ id: "u-1", email: "ada@example.com" });
  expect(links.readPassword(mailed)).toEqual(person);
  expect(links.readProof(proof)).toEqual({ id: "u-1", email: "ada@example.com" });
  // Each opens its own door.
  expect([links.readPassword(proof), links.isSetup(proof), links.readProof(password)]).toEqual([
    null,
    false,
    null,
  ]);
  clock.nowMs += 3_600_000;
  expect([links.readPassword(mailed), links.readPassword(password)]).toEqual([null, person]);
  clock.nowMs += 23 * 3_600_000;
  expect(links.readProof(proof)).toBeNull();
  clock.nowMs += 6 * 86_400_000;
  expect(links.readPassword(password)).toBeNull();
  expect(links.isSetup(setup)).toBe(true);
});
