import { expect, test } from "vitest";
import { type Hash, Passwords } from "../../../src/identity/passwords.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { Seal } from "../../../src/kit/seal.ts";
import { cheapHash } from "../../support/cheap-hashes.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const seal = new Seal(Buffer.alloc(32, 7));
const EMAIL = "ada@example.com";
const IP = "192.0.2.1";

function passwordsOf(sealedBy = seal): Passwords {
  return new Passwords(sealedBy, systemClock, cheapHash);
}

test("the same address and password give the same key, in either composition, and no others do", async () => {
  const passwords = passwordsOf();
  const key = await passwords.key(EMAIL, "caf\u00e9 au lait", IP);
  expect(key).toHaveLength(32);
  expect((await passwords.key(EMAIL, "cafe\u0301 au lait", IP)).equals(key)).toBe(true);
  for (const [email, password] of [
    [EMAIL, "cafe au lait"],
    [EMAIL, ""],
    ["eve@example.com", "caf\u00e9 au lait"],
    ["", "caf\u00e9 au lait"],
  ] as const) {
    expect((await passwords.key(email, password, IP)).equals(key)).toBe(false);
  }
  // Without the master key a copy of the database gives nothing to try.
  const elsewhere = passwordsOf(new Seal(Buffer.alloc(32, 8)));
  expect((await elsewhere.key(EMAIL, "caf\u00e9 au lait", IP)).equals(key)).toBe(false);
});

test("a hash costs what it should where nothing else is said", async () => {
  const costs: object[] = [];
  const hash: Hash = async (_, __, cost) => {
    costs.push(cost);
    return Buffer.alloc(32);
  };
  const passwords = new Passwords(seal, systemClock, hash);
  await passwords.key(EMAIL, "x", IP);
  // OWASP's figures for 16 MiB.
  expect(costs).toEqual([{ N: 2 ** 14, r: 8, p: 5 }]);
});

/** Hashes that end when the test says so; the passwords that were begun, in order. */
function heldHashes() {
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const clock = new HandClock();
  const hash = async (password: string): Promise<Buffer> => {
    begun.push(password);
    await new Promise<void>((resolve) => ends.push(resolve));
    return Buffer.alloc(32);
  };
  const passwords = new Passwords(seal, clock, hash);
  const endNext = async (): Promise<void> => {
    const count = begun.length;
    ends.shift()?.();
    await until("the next hash has begun", () => begun.length > count);
  };
  return { begun, clock, passwords, endNext };
}

verifies(
  "sign-in.shares",
  "who tries many passwords keeps nobody at another address from a turn",
  async () => {
    const { begun, passwords, endNext } = heldHashes();
    // Networks of IPv6 count as one address.
    const guesses = Array.from({ length: 40 }, (_, n) =>
      passwords.key(EMAIL, `guess ${n}`, `2001:db8::${n + 1}`),
    );
    const refused = guesses.slice(17).map(async (guess) => await guess.catch((error: unknown) => error));
    for (const error of await Promise.all(refused))
      expect(error).toMatchObject({ code: "too_many_requests" });
    void passwords.key(EMAIL, "hers", "192.0.2.7");
    void passwords.key(EMAIL, "his", "192.0.2.8");
    await until("all have come", () => begun.length === 1);
    await endNext();
    await endNext();
    await endNext();
    expect(begun).toEqual(["guess 0", "guess 1", "hers", "his"]);
  },
);

verifies(
  "sign-in.shares",
  "nobody waits for ever: after ten seconds a turn that has not come is refused",
  async () => {
    const { begun, clock, passwords } = heldHashes();
    void passwords.key(EMAIL, "first", IP);
    const second = passwords.key(EMAIL, "second", IP);
    await clock.sets(10_000);
    clock.advance(10_000);
    await expect(second).rejects.toMatchObject({ code: "too_many_requests" });
    expect(begun).toEqual(["first"]);
  },
);
