import { expect } from "vitest";
import { respond } from "../../../../src/runs/response.ts";
import { genAiAttributes, hasUsage, tokensOf } from "../../../../src/runs/traces/gen-ai.ts";
import { verifies } from "../../../verifies.ts";

const ID = "0197c3a0-7e1b-7abc-8def-0123456789ab";
const COMPLETION = {
  id: "chatcmpl-1",
  object: "chat.completion",
  model: "llama-3-8b",
  choices: [{ index: 0, finish_reason: "stop" }, { index: 1 }],
  usage: { prompt_tokens: 12, completion_tokens: 34, total_tokens: 46 },
};

function attributesOf(result: unknown, isBare = true) {
  const json = Buffer.from(typeof result === "string" ? result : JSON.stringify(result));
  return genAiAttributes(respond(ID, { kind: "returned", json, status: 200, runMs: 1 }, isBare), null);
}

verifies(
  "traces.gen-ai",
  "an answer in OpenAI's form says what the model did, bare or in the envelope",
  () => {
    const said = {
      "gen_ai.operation.name": "chat",
      "gen_ai.response.id": "chatcmpl-1",
      "gen_ai.response.model": "llama-3-8b",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 12,
      "gen_ai.usage.output_tokens": 34,
    };
    expect(attributesOf(COMPLETION)).toEqual(said);
    expect(attributesOf(COMPLETION, false)).toEqual(said);
    expect(attributesOf({ object: "response", usage: { input_tokens: 1, output_tokens: 2 } })).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.usage.input_tokens": 1,
      "gen_ai.usage.output_tokens": 2,
    });
    for (const object of ["constructor", "__proto__"])
      expect(attributesOf({ object, usage: { input_tokens: 1 } })).toEqual({
        "gen_ai.usage.input_tokens": 1,
      });
  },
);

verifies("traces.gen-ai", "nothing is guessed from any other answer", () => {
  const others = [
    {},
    [],
    "null",
    { usage: 3 },
    { usage: [1] },
    { result: { usage: null } },
    '"usage"',
    { model: "llama", text: "no usage" },
    { usage: {}, text: "x".repeat(70_000) },
  ];
  for (const other of others) expect(attributesOf(other)).toEqual({});
  const odd = { usage: { prompt_tokens: -1, completion_tokens: 1.5 }, model: 7, choices: "none" };
  expect(attributesOf(odd)).toEqual({});
});

verifies(
  "traces.gen-ai",
  "so does the last chunk of a stream, as text or JSON, and the events of a server",
  () => {
    const chunk = {
      object: "chat.completion.chunk",
      choices: [],
      usage: { prompt_tokens: 1, completion_tokens: 2 },
    };
    const said = {
      "gen_ai.operation.name": "chat",
      "gen_ai.usage.input_tokens": 1,
      "gen_ai.usage.output_tokens": 2,
    };
    const streamed = respond(ID, { kind: "streamed", runMs: 1 }, true);
    const asJson = Buffer.from(JSON.stringify(chunk));
    const asText = Buffer.from(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
    for (const bytes of [asJson, asText]) {
      expect(hasUsage(bytes)).toBe(true);
      expect(genAiAttributes(streamed, bytes)).toEqual(said);
    }
    expect(genAiAttributes(streamed, null)).toEqual({});
    expect(hasUsage(Buffer.from('{"usage":null}'))).toBe(false);
    const contentType = "text/event-stream";
    const served = respond(ID, { kind: "responded", status: 200, contentType, body: asText, runMs: 1 }, true);
    expect(genAiAttributes(served, null)).toEqual(said);
  },
);

verifies(
  "usage.tokens",
  "the tokens of an answer are counted, of a plain call and of a stream, within reason",
  () => {
    const tokens = (result: unknown, isBare = true, chunk: Buffer | null = null) => {
      const json = Buffer.from(JSON.stringify(result));
      return tokensOf(respond(ID, { kind: "returned", json, status: 200, runMs: 1 }, isBare), chunk);
    };
    expect(tokens(COMPLETION)).toEqual({ input: 12, output: 34 });
    expect(tokens(COMPLETION, false)).toEqual({ input: 12, output: 34 });
    expect(tokens({ ...COMPLETION, usage: { input_tokens: 7 } })).toEqual({ input: 7, output: null });
    expect(tokens({ text: "no usage", filler: "x".repeat(200) })).toBeNull();
    const chunk = Buffer.from(JSON.stringify({ choices: [], usage: { completion_tokens: 5 } }));
    expect(tokens({}, true, chunk)).toEqual({ input: null, output: 5 });
    const absurd = { prompt_tokens: 1e15, completion_tokens: -1 };
    expect(tokens({ ...COMPLETION, usage: absurd })).toEqual({ input: null, output: null });
  },
);
