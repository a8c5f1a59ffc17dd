import { expect, test } from "vitest";
import { SseCounter } from "../../../bench/sse-counter.ts";

function count(pieces: readonly string[]): { messages: number; values: number[] } {
  const values: number[] = [];
  const counter = new SseCounter((value) => values.push(value));
  for (const piece of pieces) {
    const bytes = Buffer.from(piece);
    counter.feed(bytes, 0, bytes.length);
  }
  return { messages: counter.messages, values };
}

const TEXT = "data: 1763187277123456789\n\ndata: 7\n\n";

test("messages are counted and their numbers read wherever the bytes are cut", () => {
  for (let cut = 0; cut <= TEXT.length; cut++) {
    expect(count([TEXT.slice(0, cut), TEXT.slice(cut)])).toEqual({
      messages: 2,
      values: [1_763_187_277_123_456, 7],
    });
  }
});

test("a message of several lines is one message, and one without its blank line none", () => {
  expect(count(["data: a\ndata: b\n\ndata: c\n"]).messages).toBe(1);
});

test("comments and errors are no messages", () => {
  expect(count([": \n\n", 'event: error\ndata: {"code":1}\n\n', "data: 5\n\n"])).toEqual({
    messages: 1,
    values: [5],
  });
});
