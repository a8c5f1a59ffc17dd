import * as fc from "fast-check";
import { expect, test } from "vitest";
import { GrowingBytes, KeptBody, releaseBytes } from "../../../src/kit/bytes.ts";
import { retainedBytes } from "../../support/retained-bytes.ts";
import { verifies } from "../../verifies.ts";

test("it gives what it was given, in order, and is empty after that", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), fc.boolean(), (pieces, isKnown) => {
      const whole = Buffer.concat(pieces);
      const bytes = new GrowingBytes();
      for (const piece of pieces) {
        const framed = Buffer.concat([Buffer.from("xx"), piece, Buffer.from("y")]);
        bytes.add(framed, 2, 2 + piece.length, isKnown ? whole.length : undefined);
      }
      expect(bytes.take()).toEqual(whole);
      expect([bytes.length, bytes.take().length]).toEqual([0, 0]);
    }),
  );
});

test("the memory is at most twice what has arrived, whatever was announced and however small the pieces are", () => {
  const announced = 1 << 30;
  const bytes = new GrowingBytes();
  const byte = Buffer.from("x");
  for (let looks = 0; looks < 30; looks++) {
    for (let i = 0; i < 10_000; i++) bytes.add(byte, 0, 1, announced);
    const room = bytes.view.buffer.byteLength;
    expect(room).toBeLessThanOrEqual(Math.max(128 * 1024, 2 * bytes.length));
  }
});

test("a view is not changed by what comes later", () => {
  const bytes = new GrowingBytes();
  bytes.add(Buffer.from("abc"), 0, 3);
  const { view } = bytes;
  bytes.add(Buffer.from("def"), 0, 3);
  expect([view.toString(), bytes.view.toString()]).toEqual(["abc", "abcdef"]);
});

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

test("a large buffer gives its memory back at once", () => {
  const buffer = Buffer.allocUnsafeSlow(64 * 1024);
  releaseBytes(buffer);
  expect([buffer.length, buffer.buffer.byteLength]).toEqual([0, 0]);
});

test("one that shares its memory, and a small one, are left alone", () => {
  const whole = Buffer.allocUnsafeSlow(64 * 1024).fill("x");
  releaseBytes(whole.subarray(1));
  releaseBytes(whole.subarray(0, 32 * 1024));
  expect([whole.length, whole[1]]).toEqual([64 * 1024, 120]);
  const small = Buffer.allocUnsafeSlow(100).fill("x");
  releaseBytes(small);
  expect(small.toString()).toBe("x".repeat(100));
});
