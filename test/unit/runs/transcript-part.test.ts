import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PartBuilder, chunksAfter } from "../../../src/runs/transcript-part.ts";

const chunk = fc.record({
  isText: fc.boolean(),
  bytes: fc.oneof(
    fc.uint8Array({ maxLength: 80 }),
    fc.uint8Array({ minLength: 60, maxLength: 70 }),
    fc.uint8Array({ minLength: 1_000, maxLength: 5_000 }),
  ),
});
type Given = { readonly isText: boolean; readonly bytes: Uint8Array };

const plain = ({ isText, bytes }: Given) => ({ isText, hex: Buffer.from(bytes).toString("hex") });

function add(builder: PartBuilder, { isText, bytes }: Given): void {
  builder.add({ isText, bytes: Buffer.from(bytes) });
}

describe("a part of a transcript", () => {
  test("gives any chunks back, in their order, from any number on", () => {
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 30 }), fc.nat(35), (given, after) => {
        const builder = new PartBuilder();
        for (const each of given) add(builder, each);
        const found = chunksAfter(builder.view(), after);
        expect(found.map(plain)).toEqual(given.slice(after).map(plain));
        expect(found.map(({ event }) => event)).toEqual(given.slice(after).map((_, i) => after + i + 1));
      }),
    );
  });

  test("is followed by one that goes on with the numbers, wherever it is taken", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(chunk, fc.boolean()), { maxLength: 30 }), (given) => {
        const builder = new PartBuilder();
        const parts = given.flatMap(([each, isTaken]) => {
          add(builder, each);
          return isTaken ? [builder.take()] : [];
        });
        const found = [...parts, builder.take()].flatMap((part) => chunksAfter(part, 0));
        expect(found.map(plain)).toEqual(given.map(([each]) => plain(each)));
        expect(found.map(({ event }) => event)).toEqual(given.map((_, i) => i + 1));
        expect(builder.firstEvent).toBe(given.length + 1);
      }),
    );
  });

  test("keeps what a reader holds of it as it was while it grows and when the next begins", () => {
    const builder = new PartBuilder();
    add(builder, { isText: true, bytes: Buffer.from("first") });
    const [held] = chunksAfter(builder.view(), 0);
    for (let i = 0; i < 5_000; i++) add(builder, { isText: true, bytes: Buffer.from("x".repeat(i % 90)) });
    builder.take();
    for (let i = 0; i < 5_000; i++) add(builder, { isText: false, bytes: Buffer.from("y".repeat(i % 90)) });
    expect(held?.bytes.toString()).toBe("first");
  });

  test("does not hold on to the bytes it was given", () => {
    const builder = new PartBuilder();
    const bytes = Buffer.from("abc");
    builder.add({ isText: true, bytes });
    bytes.fill("z");
    expect(chunksAfter(builder.view(), 0)[0]?.bytes.toString()).toBe("abc");
  });

  test("takes a chunk of 64 MiB", () => {
    const builder = new PartBuilder();
    const bytes = Buffer.alloc(64 * 1024 * 1024, "a");
    builder.add({ isText: true, bytes });
    builder.add({ isText: false, bytes: Buffer.from("1") });
    const [large, small] = chunksAfter(builder.view(), 0);
    expect([large?.bytes.length, large?.isText]).toEqual([bytes.length, true]);
    expect([small?.bytes.toString(), small?.isText]).toEqual(["1", false]);
  });
});
