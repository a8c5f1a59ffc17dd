import * as fc from "fast-check";
import { expect, test } from "vitest";
import { GrowingBytes } from "../../../src/kit/growing-bytes.ts";

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
