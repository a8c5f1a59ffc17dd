import { createParser } from "eventsource-parser";
import { expect, test } from "vitest";
import { SseBuffer, type SseMode } from "../../../src/runs/sse.ts";

const asText = (mode: SseMode, text: string, isText = true): string => {
  const sse = new SseBuffer(mode);
  sse.addChunk({ isText, bytes: Buffer.from(text) });
  return sse.take().toString();
};

const parse = (text: string) => {
  const messages: { event: string | undefined; data: string }[] = [];
  createParser({ onEvent: ({ event, data }) => messages.push({ event, data }) }).feed(text);
  return messages;
};

test.each([
  ["a word", "a", "data: a\n\n"],
  ["the empty chunk", "", "data: \n\n"],
  ["a leading space", " a", "data:  a\n\n"],
  ["LF", "a\nb", "data: a\ndata: b\n\n"],
  ["CR", "a\rb", "data: a\ndata: b\n\n"],
  ["CRLF", "a\r\nb", "data: a\ndata: b\n\n"],
  ["LF then CR, which are two", "a\n\rb", "data: a\ndata: \ndata: b\n\n"],
  ["CR at the end", "a\r", "data: a\ndata: \n\n"],
  ["nothing but CRLF", "\r\n", "data: \ndata: \n\n"],
  ["a blank line inside", "a\n\nb", "data: a\ndata: \ndata: b\n\n"],
  ["another field", "a\nevent: b\nid: 1", "data: a\ndata: event: b\ndata: id: 1\n\n"],
  ["a byte order mark", "\uFEFFa", "data: \uFEFFa\n\n"],
  ["U+2028 and NUL, which are no line breaks", "a\u2028b\0", "data: a\u2028b\0\n\n"],
  ["complete SSE text", "data: a\n\n", "data: data: a\ndata: \ndata: \n\n"],
])("wrap: %s", (_, chunk, written) => {
  expect(asText("wrap", chunk)).toBe(written);
  expect(parse(written).map(({ data }) => data)).toEqual([chunk.replaceAll(/\r\n?/g, "\n")]);
});

test("a parser gives one message with empty data for the empty chunk", () => {
  expect(parse(asText("auto", ""))).toEqual([{ event: undefined, data: "" }]);
});

test.each([
  ["data: a\n\n"],
  ["data:a\n\n"],
  ["data:\n\n"],
  ["event: x\nid: 1\nretry: 5\n: note\ndata: a\ndata: b\n\n"],
  ["data: a\n\ndata: b\n\n"],
  ["data: a\n\n\n"],
  ["\ndata: a\n\n"],
])("auto passes complete SSE text unchanged: %j", (chunk) => {
  expect(asText("auto", chunk)).toBe(chunk);
});

test.each([
  ["no blank line at the end", "data: a\n"],
  ["text after the blank line", "data: a\n\ndata: b"],
  ["CRLF", "data: a\r\n\r\n"],
  ["a CR inside a line", "data: a\rb\n\n"],
  ["a line that is no field", "data: a\nb\n\n"],
  ["an unknown field", "data: a\nfoo: b\n\n"],
  ["a field without its colon", "data\n\n"],
  ["a space before the field", " data: a\n\n"],
  ["a byte order mark first", "\uFEFFdata: a\n\n"],
  ["a block of a comment alone", ": ping\n\n"],
  ["one block without data", "data: a\n\nevent: b\n\n"],
  ["blank lines alone", "\n\n"],
  ["an upper-case field", "Data: a\n\n"],
])("auto wraps what is not complete SSE text: %s", (_, chunk) => {
  expect(asText("auto", chunk)).toBe(asText("wrap", chunk));
  expect(parse(asText("auto", chunk)).map(({ data }) => data)).toEqual([chunk.replaceAll(/\r\n?/g, "\n")]);
});

test("a chunk that is not text is always wrapped", () => {
  expect(asText("auto", '{"a":1}', false)).toBe('data: {"a":1}\n\n');
  expect(parse(asText("auto", "data: a\n\n", false))).toEqual([{ event: undefined, data: "data: a\n\n" }]);
});

test("messages of one tick leave as one buffer, and the count of waiting bytes is exact", () => {
  const sse = new SseBuffer("auto");
  expect(sse.bytes).toBe(0);
  expect(sse.take()).toHaveLength(0);
  sse.addChunk({ isText: true, bytes: Buffer.from("a") });
  sse.addComment("ping");
  sse.addChunk({ isText: true, bytes: Buffer.from("data: b\n\n") });
  sse.addEvent("error", '{"message":"x"}');
  const expected = 'data: a\n\n: ping\n\ndata: b\n\nevent: error\ndata: {"message":"x"}\n\n';
  expect(sse.bytes).toBe(expected.length);
  expect(sse.take().toString()).toBe(expected);
  expect(sse.bytes).toBe(0);
});

test("a comment of several lines stays a comment", () => {
  const sse = new SseBuffer("auto");
  sse.addComment("a\ndata: b\r\rc");
  expect(parse(sse.take().toString())).toEqual([]);
});

test("an event's data is split like a chunk's, and its name is one line", () => {
  const sse = new SseBuffer("auto");
  sse.addEvent("end", "a\n\ndata: b");
  expect(parse(sse.take().toString())).toEqual([{ event: "end", data: "a\n\ndata: b" }]);
  expect(() => sse.addEvent("a\ndata: b", "")).toThrow("one line");
  expect(sse.bytes).toBe(0);
});

test("a buffer that was taken is not written again, by its stream or by another", () => {
  const texts = Array.from({ length: 300 }, (_, i) => `${i} `.repeat(i * 3));
  const streams = [new SseBuffer("wrap"), new SseBuffer("wrap"), new SseBuffer("wrap")];
  const taken = texts.map((text, i) => {
    const stream = streams[i % streams.length]!;
    stream.addChunk({ isText: true, bytes: Buffer.from(text) });
    return { text, bytes: stream.take() };
  });
  for (const { text, bytes } of taken) expect(bytes.toString()).toBe(`data: ${text}\n\n`);
});

test("streams that gather at the same time do not mix", () => {
  const streams = Array.from({ length: 400 }, () => new SseBuffer("wrap"));
  for (let round = 0; round < 20; round++) {
    for (const [i, stream] of streams.entries()) {
      stream.addChunk({ isText: true, bytes: Buffer.from(`${i}.`.repeat(round * 5)) });
    }
  }
  for (const [i, stream] of streams.entries()) {
    const expected = Array.from({ length: 20 }, (_, round) => `${i}.`.repeat(round * 5));
    expect(parse(stream.take().toString()).map(({ data }) => data)).toEqual(expected);
  }
});

test.each([0, 1, 63, 64, 65, 4087, 4088, 4089, 70_000])(
  "a chunk of %i bytes is whole, with and without a line break at its end",
  (bytes) => {
    for (const text of ["x".repeat(bytes), `${"x".repeat(bytes)}\n`, `${"x".repeat(bytes)}\r`]) {
      expect(parse(asText("wrap", text))).toEqual([{ event: undefined, data: text.replace("\r", "\n") }]);
    }
  },
);
