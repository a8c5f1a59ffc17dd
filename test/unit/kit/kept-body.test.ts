import * as fc from "fast-check";
import { expect, test } from "vitest";
import { KeptBody } from "../../../src/kit/kept-body.ts";
import { retainedBytes } from "../../support/retained-bytes.ts";
import { verifies } from "../../verifies.ts";

test("it gives what it was given, in order, unless that is too much", () => {
  const sizes = fc.array(fc.oneof(fc.nat(9), fc.integer({ min: 4000, max: 5000 })), { maxLength: 12 });
  fc.assert(
    fc.property(sizes, fc.nat(20_000), (lengths, maxBytes) => {
      const body = new KeptBody(maxBytes);
      const pieces = lengths.map((length, at) => Buffer.alloc(length, at + 1));
      for (const each of pieces) body.add(each);
      const whole = Buffer.concat(pieces);
      const isTooLarge = whole.length > maxBytes;
      expect(body.isTooLarge).toBe(isTooLarge);
      for (let looks = 0; looks < 2; looks++)
        expect(body.whole()?.equals(whole) ?? null).toBe(isTooLarge ? null : true);
    }),
  );
});

verifies("hardening.bodies", "a body in pieces of one byte takes at most twice its size", () => {
  const bytes = 500_000;
  const body = new KeptBody(bytes);
  const packet = Buffer.alloc(1_000, "x");
  const before = retainedBytes();
  for (let at = 0; at < bytes; at++) body.add(packet.subarray(at % 1_000, (at % 1_000) + 1));
  expect(retainedBytes() - before).toBeLessThan(4 * bytes);
  expect(body.whole()?.equals(Buffer.alloc(bytes, "x"))).toBe(true);
});
