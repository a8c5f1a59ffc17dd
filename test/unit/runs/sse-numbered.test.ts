import { createParser } from "eventsource-parser";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SseBuffer } from "../../../src/runs/sse.ts";

const line = fc.oneof(
  fc.constantFrom("", " ", "  ", " a ", "data", "id: 9", "\u2028id: x", "é水", "\u3000", "x".repeat(70)),
  fc.string({ maxLength: 5 }).map((text) => text.replaceAll(/[\r\n]/g, "")),
);
const block = fc.tuple(
  fc.array(fc.constantFrom("event: a", "id: 77", "id:", ": note", "retry: 10"), { maxLength: 3 }),
  line,
  fc.array(fc.constantFrom("id: 5", "data: more", ": x"), { maxLength: 2 }),
);
/** Complete SSE text of one or more blocks, with blank lines too many. */
const sseText = fc
  .array(fc.tuple(block, fc.integer({ min: 2, max: 4 })), { minLength: 1, maxLength: 3 })
  .map((blocks) =>
    blocks
      .map(
        ([[before, data, after], breaks]) =>
          [...before, `data:${data}`, ...after].join("\n") + "\n".repeat(breaks),
      )
      .join(""),
  );
const anyText = fc.oneof(
  sseText,
  fc.array(line, { maxLength: 3 }).map((lines) => lines.join("\n")),
);

type Seen = { readonly data: string; readonly event: string | undefined; readonly id: string | undefined };

function parse(text: string): Seen[] {
  const seen: Seen[] = [];
  const parser = createParser({ onEvent: ({ data, event, id }) => seen.push({ data, event, id }) });
  parser.feed(text);
  return seen;
}

function written(texts: readonly string[], mode: "auto" | "wrap", isNumbered: boolean): string {
  const buffer = new SseBuffer(mode);
  for (const [i, text] of texts.entries()) {
    const chunk = { isText: true, bytes: Buffer.from(text) };
    if (isNumbered) buffer.addNumbered(i + 1, chunk);
    else buffer.addChunk(chunk);
  }
  return buffer.take().toString();
}

const one = (text: string, mode: "auto" | "wrap" = "auto"): string => written([text], mode, true);

describe("numbered messages", () => {
  test("say what they say without numbers, and each chunk's last message has its number", () => {
    fc.assert(
      fc.property(fc.array(anyText, { maxLength: 5 }), fc.constantFrom("auto", "wrap"), (texts, mode) => {
        const plain = texts.map((text) => parse(written([text], mode, false)));
        const numbered = parse(written(texts, mode, true));
        const withoutIds = ({ data, event }: Seen) => ({ data, event });
        expect(numbered.map(withoutIds)).toEqual(plain.flat().map(withoutIds));
        const ids = plain.flatMap((messages, i) =>
          messages.map((_, place) => (place === messages.length - 1 ? `${i + 1}` : undefined)),
        );
        expect(numbered.map(({ id }) => id)).toEqual(ids);
      }),
      { numRuns: 500 },
    );
  });

  test("have the number before the data", () => {
    expect(one("a\nb")).toBe("id: 1\ndata: a\ndata: b\n\n");
    expect(one("")).toBe("id: 1\ndata: \n\n");
    expect(one("data: a\n\n", "wrap")).toBe("id: 1\ndata: data: a\ndata: \ndata: \n\n");
  });

  test("drop a number of the app's own, and nothing else", () => {
    expect(one("id: 7\nevent: a\ndata: id: 7\n\n")).toBe("id: 1\nevent: a\ndata: id: 7\n\n");
    expect(one("data: a\nid:7\n\n")).toBe("id: 1\ndata: a\n\n");
    expect(one("data: a \n\n")).toBe("id: 1\ndata: a \n\n");
    expect(one("data: a\u2028id: 7\n\n")).toBe("id: 1\ndata: a\u2028id: 7\n\n");
  });

  test("of several blocks in a chunk have the number on the last", () => {
    expect(one("id: 1\ndata: a\n\nid: 2\ndata: b\n\n\n")).toBe("data: a\n\nid: 1\ndata: b\n\n");
    expect(one("\ndata: a\n\n")).toBe("\nid: 1\ndata: a\n\n");
  });

  test("of a named type have it too, where it is asked for", () => {
    const buffer = new SseBuffer("auto");
    buffer.addEvent("end", "{}", 4);
    buffer.addEvent("truncated", "{}");
    expect(buffer.take().toString()).toBe("event: end\nid: 4\ndata: {}\n\nevent: truncated\ndata: {}\n\n");
  });
});
