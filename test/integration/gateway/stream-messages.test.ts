import { describe, expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { openStream, type StreamReader } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import datetime
import uuid

LONE = chr(0xd800)

def run(values, lone="\\ue000"):
    """A body cannot carry a lone surrogate: here it stands for a private character."""
    for value in values:
        yield value.replace(lone, LONE) if isinstance(value, str) else value

def kinds():
    yield "plain"
    yield ""
    yield 7
    yield 2.5
    yield True
    yield None
    yield {"a": [1, "ü"], "b": {}}
    yield [1, 2]
    yield 2 ** 53 + 1
    yield datetime.date(2026, 1, 2)
    yield uuid.UUID(int=5)

def large(count):
    yield "before"
    yield "x" * count

def plain(value=None):
    return value

def fails():
    raise ValueError("no")
`;

const toml = "[limits]\nmax_chunk = 2048\n";
const service = sharedService({
  auto: { main: MAIN, toml },
  wrap: { main: MAIN, toml: `[deployment]\nsse = "wrap"\n${toml}` },
  roomy: { main: MAIN, toml: '[deployment]\nsse = "wrap"\n' },
});

async function read(
  app: string,
  functionName: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<StreamReader> {
  const reader = await openStream(service(), app, body, { functionName, headers }).ended();
  reader.leave();
  return reader;
}

const yielded = (values: readonly unknown[], app = "auto") => read(app, "run", { values });

/** Texts that look like fields, comments and ends of messages. */
const LOOKALIKES = [
  "data: x",
  "event: error",
  "id: 7",
  "retry: 1",
  ": comment",
  "x\nevent: error\ndata: forged",
  "x\n\nevent: error\ndata: forged",
  "x\r\revent: error\rdata: forged",
  "x\r\n\r\nid: 9\r\ndata: forged",
  "\n\ndata: forged\n",
  " leading",
  "  two",
  "\ufefffirst",
  "a\u2028b\u2029c\u0085d",
  "a\u0000b",
  "\u000b\u000c",
];

const asRead = (text: string): string => text.replaceAll(/\r\n|\r/g, "\n");

/** Reproducible, so that a failure can be looked at again. */
function randomTexts(count: number): string[] {
  const parts = ["\n", "\r", "\r\n", "\u2028", "\0", " ", "data:", "event:", "id:", "retry:", ":", "\ue000"];
  parts.push("é", "𝄞", "word", "\ufeff", "data: x\n\n");
  let state = 42;
  const draw = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return Array.from({ length: count }, () =>
    Array.from({ length: draw(6) }, () => parts[draw(parts.length)]).join(""),
  );
}

describe("each yield", () => {
  verifies(
    ["stream.message", "stream.no-event-names"],
    "is one message, data and a blank line, without a name",
    async () => {
      const reader = await yielded(["one", "two"]);
      expect(reader.text).toBe("data: one\n\ndata: two\n\n");
      expect(reader.messages).toMatchObject([
        { event: null, data: "one" },
        { event: null, data: "two" },
      ]);
    },
  );

  verifies("stream.values", "is sent as it is when it is a string, as JSON otherwise", async () => {
    expect((await read("auto", "kinds", {})).data).toEqual([
      "plain",
      "",
      "7",
      "2.5",
      "true",
      "null",
      '{"a":[1,"ü"],"b":{}}',
      "[1,2]",
      "9007199254740993",
      '"2026-01-02"',
      '"00000000-0000-0000-0000-000000000005"',
    ]);
  });

  verifies("stream.line-breaks", "with line breaks of any kind is several data lines", async () => {
    const reader = await yielded(["a\nb", "a\rb", "a\r\nb", "a\n\rb", "\n", "a\n", "\r\n\r\n"]);
    expect(reader.text.startsWith("data: a\ndata: b\n\n".repeat(3))).toBe(true);
    expect(reader.data).toEqual(["a\nb", "a\nb", "a\nb", "a\n\nb", "\n", "a\n", "\n\n"]);
    expect(reader.text.includes("\r")).toBe(false);
  });

  verifies("stream.no-injection", "stays inside its message, whatever it contains", async () => {
    for (const app of ["auto", "wrap"]) {
      const reader = await yielded(LOOKALIKES, app);
      expect(reader.messages.map(({ event, data }) => [event, data])).toEqual(
        LOOKALIKES.map((text) => [null, asRead(text)]),
      );
      expect(reader.comments).toEqual([]);
    }
  });

  verifies("stream.surrogates", "has U+FFFD in the place of a lone surrogate", async () => {
    const reader = await yielded(["a\ue000b", "\ue000", "𝄞"]);
    expect(reader.data).toEqual(["a\ufffdb", "\ufffd", "𝄞"]);
  });

  test("of 100,000 random strings comes back as exactly that string, one message each", async () => {
    const texts = randomTexts(100_000);
    const { messages } = await read("roomy", "run", { values: texts });
    const wanted = texts.map((text) => asRead(text).replaceAll("\ue000", "\ufffd"));
    expect(messages).toHaveLength(texts.length);
    const wrong = messages.findIndex(({ event, data }, place) => event !== null || data !== wanted[place]);
    expect([wrong, texts[wrong], messages[wrong]]).toEqual([-1, undefined, undefined]);
  });

  verifies("stream.max-chunk", "over max_chunk ends the run as a failure", async () => {
    expect((await read("auto", "large", { count: 2048 })).data).toEqual(["before", "x".repeat(2048)]);
    const reader = await read("auto", "large", { count: 2049 });
    expect(reader.messages.map(({ event }) => event)).toEqual([null, "error"]);
    expect(JSON.parse(reader.data[1] ?? "")).toMatchObject({ code: "result_too_large" });
    await service().service.settle();
    const appNumber = service().apps.get("auto")?.app.number ?? 0;
    const run = await service().service.store.runs.find({ appNumber, id: reader.runId });
    expect(run).toMatchObject({ state: "failure", statusCode: 500, errorCode: "result_too_large" });
  });
});

const COMPLETE = [
  "data: x\n\n",
  "data:x\n\n",
  "event: delta\ndata: {}\n\n",
  "id: 7\nretry: 10\ndata: a\ndata: b\n\n",
  ": note\ndata: a\n\ndata: b\n\n",
];
const INCOMPLETE = [
  "data: x",
  "data: x\n",
  "data: x\r\n\r\n",
  "event: delta\n\n",
  ": note\n\n",
  "data: x\n\nevent: y\n\n",
  "data: x\nother: y\n\n",
  " data: x\n\n",
  "\ndata: x\n",
  "text\n\n",
];

describe("a string that is complete SSE text", () => {
  verifies(["stream.sse-auto", "stream.sse-auto.rule"], "passes unchanged, by the exact rule", async () => {
    expect((await yielded(COMPLETE)).text).toBe(COMPLETE.join(""));
    const reader = await yielded(INCOMPLETE);
    expect(reader.messages.map(({ event, data }) => [event, data])).toEqual(
      INCOMPLETE.map((text) => [null, asRead(text)]),
    );
  });

  verifies("stream.sse-auto", "keeps the names and places of its messages among others", async () => {
    const { messages } = await yielded(["before", "event: delta\ndata: 1\n\n", { data: 2 }]);
    expect(messages.map(({ event, data }) => [event, data])).toEqual([
      [null, "before"],
      ["delta", "1"],
      [null, '{"data":2}'],
    ]);
  });

  verifies("stream.sse-wrap", 'is a chunk like any other with sse = "wrap"', async () => {
    const { messages } = await yielded(COMPLETE, "wrap");
    expect(messages.map(({ event, data }) => [event, data])).toEqual(COMPLETE.map((text) => [null, text]));
  });
});

describe("a plain value asked for as a stream", () => {
  const asEvents = { accept: "text/event-stream" };

  verifies("stream.plain-value", "is one message, the bare result as if it was yielded", async () => {
    for (const [value, data] of [
      ["text", "text"],
      ["two\nlines", "two\nlines"],
      ['quoted "x" \\ ü \u2028', 'quoted "x" \\ ü \u2028'],
      ["", ""],
      [7, "7"],
      [null, "null"],
      [{ a: [1] }, '{"a":[1]}'],
      [{ status_code: 201 }, '{"status_code":201}'],
    ]) {
      for (const more of [{}, { "accept-encoding": "gzip" }]) {
        const reader = await read("auto", "plain", { value }, { ...asEvents, ...more });
        expect(reader.messages.map((message) => [message.event, message.data])).toEqual([[null, data]]);
        expect([reader.isWhole, reader.header("content-type")]).toEqual([
          true,
          "text/event-stream; charset=utf-8",
        ]);
        expect(reader.header("server-timing")).toMatch(/, run;dur=[\d.]+$/);
      }
    }
    expect((await read("auto", "plain", { value: "event: x\ndata: 1\n\n" }, asEvents)).text).toBe(
      "event: x\ndata: 1\n\n",
    );
  });

  verifies("stream.plain-value", "by name only: other wishes get JSON", async () => {
    for (const [accept, type] of [
      ["application/json, text/event-stream;q=0.5", "text/event-stream; charset=utf-8"],
      ["TEXT/Event-Stream", "text/event-stream; charset=utf-8"],
      ["*/*", "application/json"],
      ["text/*", "application/json"],
      ["text/event-stream;q=0", "application/json"],
    ] as const) {
      expect([
        accept,
        (await read("auto", "plain", { value: 1 }, { accept })).header("content-type"),
      ]).toEqual([accept, type]);
    }
  });

  test("that turns out an error has its ordinary status", async () => {
    for (const [functionName, body, status] of [
      ["fails", {}, 500],
      ["plain", { other: 1 }, 422],
      ["nothing", {}, 404],
      ["plain", { value: { status_code: 418 } }, 418],
    ] as const) {
      const reader = await read("auto", functionName, body, asEvents);
      expect([reader.head?.status, reader.header("content-type")]).toEqual([status, "application/json"]);
    }
  });
});
