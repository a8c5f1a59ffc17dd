import { createParser } from "eventsource-parser";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { type Message, SseParser } from "../../../src/client/sse.ts";
import { SseBuffer } from "../../../src/runs/sse.ts";

/** What the parser makes of bytes that come in pieces of these lengths, and the rest. */
function parse(bytes: Uint8Array, lengths: readonly number[]): Message[] {
  const parser = new SseParser();
  const messages: Message[] = [];
  let at = 0;
  for (const length of [...lengths, bytes.length]) {
    messages.push(...parser.feed(bytes.subarray(at, at + length)));
    at += length;
  }
  return messages;
}

const lengths = fc.array(fc.nat(20), { maxLength: 40 });
const line = fc.oneof(
  fc.constantFrom(
    "",
    "",
    ":",
    ": comment",
    "data",
    "data:",
    "data:  two",
    "id: 7",
    "id",
    "event: x",
    "event:",
  ),
  fc.constantFrom("retry: 10", "other: y", "data: 漢字 😀", "event: ž", "data: a:b"),
  fc.string({ unit: fc.constantFrom("d", "a", "t", ":", " ", "ü", "😀"), maxLength: 8 }),
);
const text = fc
  .array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\r")), { maxLength: 30 })
  .map((lines) => lines.flat().join(""));

test("any text is read as an independent parser reads it, wherever it is cut", () => {
  fc.assert(
    fc.property(text, lengths, (text, lengths) => {
      const expected: Message[] = [];
      const reference = createParser({
        onEvent: ({ id, event, data }) =>
          expected.push({ id: id ?? null, event: event === "" ? null : (event ?? null), data }),
      });
      // The reference keeps a lone CR at the end for the next piece: here nothing follows it.
      const whole = `${text}\n`;
      reference.feed(whole);
      expect(parse(new TextEncoder().encode(whole), lengths)).toEqual(expected);
    }),
  );
});

test("what the service writes is read back, wherever it is cut", () => {
  const chunk = fc.string({
    unit: fc.constantFrom("a", "\n", "\r", ":", " ", "ü", "漢", "😀", "data:", "id: 1"),
  });
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 12 }), lengths, (chunks, lengths) => {
      const buffer = new SseBuffer("wrap");
      chunks.forEach((data, i) => buffer.addNumbered(i + 1, { isText: true, bytes: Buffer.from(data) }));
      const expected = chunks.map((data, i) => ({
        id: String(i + 1),
        event: null,
        data: data.replaceAll(/\r\n|\r/g, "\n"),
      }));
      expect(parse(buffer.take(), lengths)).toEqual(expected);
    }),
  );
});

test("a message whose end has not come is not given", () => {
  const bytes = new TextEncoder().encode("data: one\n\ndata: two\n");
  expect(parse(bytes, [])).toEqual([{ id: null, event: null, data: "one" }]);
});
