import { describe, expect, test } from "vitest";
import { lineOfRequest, openAiForm } from "../../../../src/runs/batches/openai-lines.ts";
import type { LineResult } from "../../../../src/runs/batches/results.ts";

const CHAT = "/v1/chat/completions";
const RUN = "0190a000-0000-7000-8000-000000000001";

describe("a line of a file of requests", () => {
  const read = (text: string) => lineOfRequest(Buffer.from(text), CHAT, 7);

  test("becomes a line of a batch, its body as it was", () => {
    const body = '{ "seed":12345678901234567890,"messages":[] }';
    const line = read(`{"custom_id":"ä\\n","method":"POST","url":"${CHAT}","body":${body},"more":1}`);
    expect(line).toMatchObject({ customId: "ä\n" });
    expect("line" in line && line.line.toString()).toBe(`{"id":"ä\\n","input":${body}}\n`);
  });

  test.each([
    ["[]", "invalid_json_line"],
    ['{"custom_id":7}', "invalid_custom_id"],
    [`{"custom_id":"${"x".repeat(257)}"}`, "invalid_custom_id"],
    ['{"custom_id":"a","method":"GET"}', "invalid_method"],
    ['{"custom_id":"a","method":"POST","url":"/v1/files"}', "mismatched_endpoint"],
    [`{"custom_id":"a","method":"POST","url":"${CHAT}"}`, "invalid_body"],
    [`{"custom_id":"a","method":"POST","url":"${CHAT}","body":"{}"}`, "invalid_body"],
    ['{"custom_id":"a","custom_id":"b"}', "invalid_json_line"],
  ])("is refused with its number: %s", (text, code) => {
    expect(read(text)).toMatchObject({ code, line: 7, message: expect.stringMatching(/\.$/) });
  });
});

describe("a line of results", () => {
  const line = { label: '"a"', index: 0, runId: RUN, statusCode: null, isBase64: false, error: null };
  const told = (fields: Partial<LineResult>, value = "") =>
    JSON.parse(
      openAiForm(true)
        .told({ ...line, state: "failure", ...fields })
        .join(value),
    );

  test("of a success has the result as the response's body, in the file of responses", () => {
    expect([openAiForm(false).wants("success"), openAiForm(true).wants("success")]).toEqual([true, false]);
    expect([openAiForm(false).wants("cancelled"), openAiForm(true).wants("failure")]).toEqual([false, true]);
    const result = { choices: ['"result":'] };
    const response = { status_code: 201, request_id: RUN, body: result };
    expect(told({ state: "success", statusCode: 201 }, JSON.stringify(result))).toEqual({
      id: "batch_req_0190a000000070008000000000000001",
      custom_id: "a",
      response,
      error: null,
    });
  });

  test("of a failure has its error as OpenAI's, with the status that a call would have", () => {
    const error = { code: "app_error", message: "ValueError: no" };
    expect(told({ error })).toMatchObject({
      response: {
        status_code: 500,
        request_id: RUN,
        body: { error: { ...error, type: "app_error", param: null } },
      },
    });
    expect(told({ statusCode: 429 }, '"slow down"')).toMatchObject({
      response: { status_code: 429, body: "slow down" },
    });
  });

  test("of a run that did not begin has no response", () => {
    const error = { code: "expired", message: "late" };
    expect(told({ runId: null, error })).toEqual({
      id: "batch_req_",
      custom_id: "a",
      response: null,
      error: { code: "batch_expired", message: "late" },
    });
  });
});
