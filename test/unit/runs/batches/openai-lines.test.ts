import { describe, expect, test } from "vitest";
import { lineOfRequest, lineOfResponse } from "../../../../src/runs/batches/openai-lines.ts";

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
  const told = (line: object) => {
    const { isError, line: bytes } = lineOfResponse(Buffer.from(JSON.stringify(line)));
    return [isError, JSON.parse(bytes.toString())];
  };
  const head = { id: "a", index: 0, run_id: RUN };

  test("of a success has the result as the response's body", () => {
    const result = { choices: ['"result":'] };
    const response = { status_code: 200, request_id: RUN, body: result };
    const id = "batch_req_0190a000000070008000000000000001";
    expect(told({ ...head, status: "success", result })).toEqual([
      false,
      { id, custom_id: "a", response, error: null },
    ]);
  });

  test("of a failure has its error as OpenAI's, with the status that a call would have", () => {
    const error = { code: "app_error", message: "ValueError: no" };
    expect(told({ ...head, status: "failure", error })).toEqual([
      true,
      expect.objectContaining({
        response: {
          status_code: 500,
          request_id: RUN,
          body: { error: { ...error, type: "app_error", param: null } },
        },
      }),
    ]);
    const refused = told({ ...head, status: "failure", result: { status_code: 429, why: "slow down" } });
    expect(refused).toMatchObject([true, { response: { status_code: 429, body: { why: "slow down" } } }]);
  });

  test("of a run that did not begin has no response", () => {
    const error = { code: "expired", message: "late" };
    expect(told({ ...head, run_id: null, status: "failure", error })).toEqual([
      true,
      { id: "batch_req_", custom_id: "a", response: null, error: { code: "batch_expired", message: "late" } },
    ]);
  });
});
