import { describe, expect, test } from "vitest";
import { addressKey } from "../../../src/kit/ip-addresses.ts";
import { SignInThrottle } from "../../../src/identity/throttle.ts";
import { AppError } from "../../../src/model/errors.ts";
import { HandClock } from "../../support/clocks.ts";

/** How many of so many attempts are let through. */
function letThrough(throttle: SignInThrottle, attempts: readonly (readonly [account: string, ip: string])[]) {
  return attempts.filter(([account, ip]) => {
    try {
      throttle.enter(account, ip);
      return true;
    } catch (error) {
      if (error instanceof AppError && error.code === "too_many_requests") return false;
      throw error;
    }
  }).length;
}

describe("sign-in is slowed down", () => {
  test("by address, whatever accounts are tried", () => {
    const throttle = new SignInThrottle(new HandClock());
    const attempts = Array.from({ length: 50 }, (_, i) => [`account ${i}`, "192.0.2.1"] as const);
    expect(letThrough(throttle, attempts)).toBe(20);
    expect(letThrough(throttle, [["account 1", "192.0.2.2"]])).toBe(1);
  });

  test("by account, from whatever addresses", () => {
    const clock = new HandClock();
    const throttle = new SignInThrottle(clock);
    const attempts = Array.from({ length: 50 }, (_, i) => ["ada", `192.0.2.${i}`] as const);
    expect(letThrough(throttle, attempts)).toBe(10);
    // Those turned away for the account's sake cost their address nothing.
    const others = Array.from({ length: 20 }, (_, i) => [`other ${i}`, "192.0.2.49"] as const);
    expect(letThrough(throttle, others)).toBe(20);
    clock.nowMs += 86_400_000;
    expect(letThrough(throttle, attempts)).toBe(10);
  });

  test("but not by success, and never where somebody has signed in before", () => {
    const throttle = new SignInThrottle(new HandClock());
    for (let i = 0; i < 100; i++) expect(throttle.enter("ada", "192.0.2.1").settle("u-ada")).toBe(true);
    const guesses = Array.from({ length: 50 }, (_, i) => ["ada", `198.51.100.${i}`] as const);
    expect(letThrough(throttle, guesses)).toBe(10);
    // Behind one proxy: her neighbours use up the address.
    const neighbours = Array.from({ length: 50 }, (_, i) => [`other ${i}`, "192.0.2.1"] as const);
    expect(letThrough(throttle, neighbours)).toBe(20);
    expect(throttle.enter("ada", "192.0.2.1").settle("u-ada")).toBe(true);
    const mistyped = Array.from({ length: 50 }, () => ["ada", "192.0.2.1"] as const);
    expect(letThrough(throttle, mistyped)).toBe(10);
  });

  test("where somebody has signed in before, only for their own password", () => {
    const clock = new HandClock();
    const throttle = new SignInThrottle(clock);
    const email = "ada@example.com";
    const addresses = Array.from({ length: 100 }, (_, i) => `192.0.2.${i}`);
    // Mallory has an account of that address too, and signs in with it from wherever she can.
    for (const ip of addresses) expect(throttle.enter(email, ip).settle("u-mallory")).toBe(true);
    const guessed = addresses.filter((ip) => throttle.enter(email, ip).settle(null)).length;
    expect(guessed).toBe(0);
    // The tenth guess was the last that could have hit: at Ada's password she has as many as everybody.
    expect(addresses.filter((ip) => throttle.enter(email, ip).settle("u-ada"))).toEqual([]);
    expect(throttle.enter(email, "192.0.2.1").settle("u-mallory")).toBe(true);
    clock.advance(60_000);
    expect(throttle.enter(email, "192.0.2.1").settle("u-ada")).toBe(true);
  });

  test("also where a password is chosen, which may be a guess at another's with that address", () => {
    const clock = new HandClock();
    const throttle = new SignInThrottle(clock);
    const chosen = (email: string, ip: string): boolean => {
      try {
        throttle.choose(email, ip);
        return true;
      } catch (error) {
        if (error instanceof AppError && error.code === "too_many_requests") return false;
        throw error;
      }
    };
    const many = Array.from({ length: 50 }, (_, i) => i);
    expect(many.filter((i) => chosen("ada@example.com", `192.0.2.${i}`))).toHaveLength(10);
    expect(many.filter((i) => chosen(`ada${i}@example.com`, "198.51.100.1"))).toHaveLength(20);
    clock.advance(60_000);
    expect(chosen("ada@example.com", "192.0.2.1")).toBe(true);
  });
});

test("of an IPv6 address its network counts, and a mapped IPv4 address is that address", () => {
  expect(addressKey("192.0.2.1")).toBe("192.0.2.1");
  expect(addressKey("::ffff:192.0.2.1")).toBe("192.0.2.1");
  expect(addressKey("2001:db8:1:2:3:4:5:6")).toBe("2001:db8:1:2");
  expect(addressKey("2001:0DB8:1:2::")).toBe("2001:db8:1:2");
  expect(addressKey("2001:db8::6")).toBe("2001:db8:0:0");
  expect(addressKey("::1")).toBe("0:0:0:0");
  expect(addressKey("not an address")).toBe("not an address");
});
