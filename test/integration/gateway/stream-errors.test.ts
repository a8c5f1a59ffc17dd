import OpenAI, { APIError } from "openai";
import type { ChatCompletionCreateParamsBase } from "openai/resources/chat/completions/completions";
import { describe, expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import { HandClock } from "../../support/clocks.ts";
import { WAIT_FOR, WAIT_FOR_ASYNC, letGo } from "../../support/run-apps.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream, type StreamReader } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `${WAIT_FOR}
def run(count=2, gate=None):
    for number in range(count):
        yield "message %d" % number
    if gate:
        wait_for(gate)
    raise ValueError("after\\nthe head")

def silent(gate):
    wait_for(gate)
    raise ValueError("after the head")
    yield

def unsendable():
    yield "fine"
    yield {"inner": {1}}

def forever():
    while True:
        yield "on"
        time.sleep(0.05)
`;

const ASYNC = `${WAIT_FOR_ASYNC}
async def run(count=2, gate=None):
    for number in range(count):
        yield "message %d" % number
    if gate:
        await wait_for(gate)
    raise ValueError("after\\nthe head")
`;

/** Speaks as a chat model does; `run` is reached by every path below it. */
const CHAT = `
import itertools

REQUESTS = []

def run(model, messages, stream=False):
    REQUESTS.append(messages)
    text = "You said: " + messages[-1]["content"]
    if not stream:
        return {"id": "c1", "object": "chat.completion", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    return chunks(model, text)

def chunks(model, text):
    words = text.split(" ")
    for word in itertools.cycle(words) if model == "endless" else words:
        yield {"id": "c1", "object": "chat.completion.chunk", "model": model,
               "choices": [{"index": 0, "delta": {"content": word + " "}, "finish_reason": None}]}
    if model == "broken":
        raise RuntimeError("out of words")
    yield "[DONE]"

def requests():
    return len(REQUESTS)
`;

const one = "[scaling]\nmax_replicas = 1\n";
const clock = new HandClock();
const service = sharedService(
  {
    app: { main: MAIN },
    looped: { main: ASYNC },
    timed: { main: MAIN, toml: "[scaling]\nresponse_grace_period = 60\n" },
    chat: { main: CHAT, toml: one },
  },
  {},
  { clock },
);

/** Between the error that ends a stream and the end of the connection. */
const LAST_WORD_MS = 50;

/** Waits for the error that ends a stream, which is read at leisure, then for the end of the connection. */
async function brokenOff(reader: StreamReader): Promise<StreamReader> {
  await until("the error", () => reader.messages.at(-1)?.event === "error");
  await clock.sets(LAST_WORD_MS);
  expect(reader.isClosed).toBe(false);
  clock.advance(LAST_WORD_MS);
  return await reader.ended();
}

async function recordOf(app: string, reader: StreamReader): Promise<Run | null> {
  await service().service.settle();
  const appNumber = service().apps.get(app)?.app.number ?? 0;
  return (await service().service.store.runs.find({ appNumber, id: reader.runId })) ?? null;
}

describe("an exception after the head", () => {
  for (const [encoding, headers] of [
    ["plain", {}],
    ["gzip", { "accept-encoding": "gzip" }],
  ] as const) {
    verifies(
      ["stream.late-exception", "stream.late-exception.failure", "run-record.stream-failure"],
      `is an error message that arrives, then a close without the last chunk; the run is a failure (${encoding})`,
      async () => {
        for (const [app, gate] of [
          ["app", null],
          ["app", encoding],
          ["looped", null],
          ["looped", encoding],
        ] as const) {
          const reader = openStream(service(), app, { gate }, { headers });
          if (gate !== null) {
            await reader.hasMessages(2);
            letGo(service(), app, gate);
          }
          await brokenOff(reader);
          expect(reader.head?.status).toBe(200);
          expect([reader.isClosed, reader.isWhole]).toEqual([true, false]);
          // A decoder that is told of an unfinished member may throw all of it away.
          expect(reader.hasMember).toBe(encoding === "gzip");
          expect(reader.messages.map(({ event }) => event)).toEqual([null, null, "error"]);
          expect(JSON.parse(reader.data[2] ?? "")).toEqual({
            message: "ValueError: after\nthe head",
            code: "app_error",
            request_id: reader.runId,
            error: { message: "ValueError: after\nthe head", code: "app_error", type: "app_error" },
          });
          const record = await recordOf(app, reader);
          expect(record).toMatchObject({ state: "failure", statusCode: 500, errorCode: "app_error" });
          expect(record?.errorTraceback).toContain("ValueError");
        }
      },
    );
  }

  verifies("stream.late-exception", "is told so too when the head left without a chunk", async () => {
    const reader = openStream(service(), "app", { gate: "silent" }, { functionName: "silent" });
    await clock.sets(1_000);
    clock.advance(1_000);
    await reader.hasHead();
    letGo(service(), "app", "silent");
    await brokenOff(reader);
    expect([reader.head?.status, reader.isWhole]).toEqual([200, false]);
    expect(reader.messages.map(({ event }) => event)).toEqual(["error"]);
  });

  verifies("stream.late-exception", "comes after every message before it, however many", async () => {
    const reader = openStream(
      service(),
      "app",
      { count: 20_000 },
      { headers: { "accept-encoding": "gzip" } },
    );
    await brokenOff(reader);
    expect(reader.messages).toHaveLength(20_001);
    expect(reader.messages.at(-2)?.data).toBe("message 19999");
    expect([reader.messages.at(-1)?.event, reader.hasMember]).toEqual(["error", true]);
  });

  test("reaches a caller who reads with fetch, and that one learns that the answer is not whole", async () => {
    for (const encoding of ["identity", "gzip"]) {
      const { token } = service().service.owner;
      const response = await fetch(service().url("app"), {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "accept-encoding": encoding },
      });
      let text = "";
      const decoder = new TextDecoder();
      const reading = (async () => {
        for await (const bytes of response.body ?? []) {
          text += decoder.decode(bytes, { stream: true });
          if (!text.includes("event: error") || !text.endsWith("\n\n")) continue;
          await clock.sets(LAST_WORD_MS);
          clock.advance(LAST_WORD_MS);
        }
      })();
      await expect(reading).rejects.toThrow("terminated");
      expect(text).toContain('data: message 1\n\nevent: error\ndata: {"message":"ValueError');
    }
  });

  test("leaves the replica fit for the next call, and the call without a trace in it", async () => {
    const replicas = () => [...(service().apps.get("chat")?.pool.replicas ?? [])].map(({ id }) => id);
    const body = { model: "broken", messages: [{ content: "x" }], stream: true };
    const reader = await brokenOff(openStream(service(), "chat", body));
    expect(reader.isWhole).toBe(false);
    const before = replicas();
    expect((await service().call("chat", {}, { functionName: "requests" })).status).toBe(200);
    expect(replicas()).toEqual(before);
  });
});

test("a value that is not JSON after the head names its type and place", async () => {
  const reader = await brokenOff(openStream(service(), "app", {}, { functionName: "unsendable" }));
  expect([reader.isWhole, reader.messages[1]?.event]).toEqual([false, "error"]);
  expect(JSON.parse(reader.data[1] ?? "")).toMatchObject({
    code: "result_not_json",
    message: expect.stringMatching(/inner.*set/) as string,
  });
});

verifies(
  "run-record.stream-failure",
  "a stream past its response_grace_period ends with an error, and its record says 504",
  async () => {
    const reader = openStream(service(), "timed", {}, { functionName: "forever" });
    await reader.hasMessages(1);
    clock.advance(59_999);
    await reader.hasMessages(reader.messages.length + 3);
    // It is looked at every 10 ms.
    clock.advance(10);
    await brokenOff(reader);
    expect([reader.head?.status, reader.isWhole, reader.messages.at(-1)?.event]).toEqual([
      200,
      false,
      "error",
    ]);
    expect(JSON.parse(reader.data.at(-1) ?? "")).toMatchObject({ code: "timed_out" });
    const record = await recordOf("timed", reader);
    expect(record).toMatchObject({ state: "failure", statusCode: 504, errorCode: "timed_out" });
  },
);

describe("an OpenAI client with the function as its base URL", () => {
  function openai() {
    let requests = 0;
    const counted: typeof fetch = (...args) => {
      requests += 1;
      return fetch(...args);
    };
    const { token } = service().service.owner;
    const client = new OpenAI({ baseURL: service().url("chat"), apiKey: token, fetch: counted });
    return { client, requests: () => requests };
  }
  const question = (model: string): Pick<ChatCompletionCreateParamsBase, "model" | "messages"> => ({
    model,
    messages: [{ role: "user", content: "hello there" }],
  });
  const ask = (model: string) => ({ ...question(model), stream: true }) as const;

  verifies("run.sub-path.openai", "gets its answers, whole and streamed", async () => {
    const { client } = openai();
    const whole = await client.chat.completions.create(question("fine"));
    expect(whole.choices[0]?.message.content).toBe("You said: hello there");
    let text = "";
    for await (const chunk of await client.chat.completions.create(ask("fine"))) {
      text += chunk.choices[0]?.delta.content ?? "";
    }
    expect(text).toBe("You said: hello there ");
  });

  verifies("run.sub-path.openai", "raises its error once, without trying again", async () => {
    const { client, requests } = openai();
    const made = async () =>
      (await service().call("chat", {}, { functionName: "requests" })).json.result as number;
    const before = await made();
    let text = "";
    const reading = (async () => {
      for await (const chunk of await client.chat.completions.create(ask("broken"))) {
        text += chunk.choices[0]?.delta.content ?? "";
      }
    })();
    const error: unknown = await reading.catch((thrown: unknown) => thrown);
    await clock.sets(LAST_WORD_MS);
    clock.advance(LAST_WORD_MS);
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ code: "app_error", message: "RuntimeError: out of words" });
    expect([text, requests(), (await made()) - before]).toEqual(["You said: hello there ", 1, 1]);
  });

  test("that stops reading stops the run", async () => {
    const { client } = openai();
    const stream = await client.chat.completions.create(ask("endless"));
    for await (const chunk of stream) if (chunk) break;
    const isBusy = () =>
      [...(service().apps.get("chat")?.pool.replicas ?? [])].some(({ calls }) => calls.size > 0);
    await until("the slot is free", () => !isBusy());
    await service().service.settle();
    const appNumber = service().apps.get("chat")?.app.number ?? 0;
    const [newest] = await service().service.store.runs.list({ appNumber, limit: 1 });
    expect(newest).toMatchObject({ state: "cancelled", statusCode: null });
  });
});
