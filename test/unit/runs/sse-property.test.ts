import { createParser } from "eventsource-parser";
import * as fc from "fast-check";
import { expect, test, vi } from "vitest";
import { SseBuffer, type SseMode } from "../../../src/runs/sse.ts";

// A hundred thousand strings, on a machine that may be busy with other suites.
vi.setConfig({ testTimeout: 60_000 });

const STRINGS_PER_RUN = 200;
const RUNS = 500;

const piece = fc.oneof(
  fc.constantFrom("\n", "\r", "\r\n", "\n\n", "\r\r\n", "\u2028", "\u2029", "\u0085", "\0", "\v", "\f"),
  fc.constantFrom("data:", "data: ", "event:", "id: ", "retry: 1", ":", ": ", " ", "  ", "\uFEFF", "data"),
  fc.constantFrom("a", "word", "é", "水车", "😀", "\uFFFD", "x".repeat(70), "[DONE]", "{}"),
  fc.string({ unit: "binary", maxLength: 3 }),
);
/** Lines of fields, most of them complete SSE text or one character away from it. */
const nearlySse = fc
  .array(fc.constantFrom("data: a\n", "data:\n", "event: b\n", ": c\n", "id: 1\n", "\n", "\n", "\r", "x"), {
    maxLength: 6,
  })
  .map((lines) => `data: a\n${lines.join("")}\n`);
const text = fc.oneof(
  { weight: 8, arbitrary: fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join("")) },
  { weight: 2, arbitrary: nearlySse },
);
const texts = fc.array(text, { minLength: STRINGS_PER_RUN, maxLength: STRINGS_PER_RUN });

/** The rule of the contract, written another way. */
function isCompleteSse(text: string): boolean {
  if (text.includes("\r") || !text.endsWith("\n\n")) return false;
  const blocks = text.split(/\n(?:\n+|$)|^\n+/).filter((block) => block !== "");
  return (
    blocks.length > 0 &&
    blocks.every((block) => {
      const lines = block.split("\n");
      return (
        lines.every((line) => /^(data|event|id|retry)?:/.test(line)) &&
        lines.some((line) => line.startsWith("data:"))
      );
    })
  );
}

/** What a spec-conforming parser makes of the bytes, which it gets in slices that end anywhere. */
function read(bytes: Buffer, sliceBytes: number): { data: string[]; others: string[] } {
  const data: string[] = [];
  const others: string[] = [];
  const parser = createParser({
    onEvent: (message) => {
      data.push(message.data);
      if (message.event !== undefined) others.push(`event ${message.event}`);
      if (message.id !== undefined) others.push(`id ${message.id}`);
    },
    onComment: (comment) => others.push(`comment ${comment}`),
    onRetry: (retry) => others.push(`retry ${retry}`),
    onError: (error) => others.push(`error ${error.message}`),
  });
  const decoder = new TextDecoder();
  for (let at = 0; at < bytes.length; at += sliceBytes) {
    parser.feed(decoder.decode(bytes.subarray(at, at + sliceBytes), { stream: true }));
  }
  return { data, others };
}

function write(mode: SseMode, texts: readonly string[], perTick: number): Buffer {
  const sse = new SseBuffer(mode);
  const ticks: Buffer[] = [];
  for (const [i, text] of texts.entries()) {
    sse.addChunk({ isText: true, bytes: Buffer.from(text) });
    if (i % perTick === perTick - 1) ticks.push(sse.take());
  }
  return Buffer.concat([...ticks, sse.take()]);
}

/** A parser joins the `data:` lines of a message with LF, so this much of a chunk is lost, and no more. */
const withLf = (text: string) => text.replaceAll(/\r\n|\r/g, "\n");

const step = fc.integer({ min: 1, max: 40 });

test("wrapped, 100,000 random strings come back as they were, one message each", () => {
  let count = 0;
  fc.assert(
    fc.property(texts, step, step, (texts, perTick, sliceBytes) => {
      const { data, others } = read(write("wrap", texts, perTick), sliceBytes);
      expect(data).toEqual(texts.map(withLf));
      expect(others).toEqual([]);
      count += texts.length;
    }),
    { numRuns: RUNS },
  );
  expect(count).toBeGreaterThanOrEqual(100_000);
});

test("with auto, what is complete SSE text is unchanged and all the rest comes back as it was", () => {
  let passed = 0;
  let wrapped = 0;
  fc.assert(
    fc.property(texts, step, step, (texts, perTick, sliceBytes) => {
      const others = texts.filter((text) => !isCompleteSse(text));
      expect(read(write("auto", others, perTick), sliceBytes)).toEqual({
        data: others.map(withLf),
        others: [],
      });
      wrapped += others.length;
      const complete = texts.filter(isCompleteSse);
      expect(write("auto", complete, perTick).toString()).toBe(complete.join(""));
      passed += complete.length;
    }),
    { numRuns: RUNS },
  );
  // Neither side of the rule may go untested because the generator missed it.
  expect(passed).toBeGreaterThan(1_000);
  expect(wrapped).toBeGreaterThan(50_000);
});

test("the property fails for a writer that does not split lines", () => {
  const careless = (texts: readonly string[]) =>
    Buffer.from(texts.map((text) => `data: ${text}\n\n`).join(""));
  expect(() =>
    fc.assert(
      fc.property(texts, (texts) => expect(read(careless(texts), 7).data).toEqual(texts.map(withLf))),
      {
        numRuns: 5,
        endOnFailure: true,
      },
    ),
  ).toThrow("Property failed");
});
