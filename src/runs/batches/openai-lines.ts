import { checkJson, MAX_DEPTH } from "../../kit/json/check-json.ts";
import { findMembers } from "../../kit/json/members.ts";
import { ERRORS } from "../../model/errors.ts";
import type { LineResult, ResultForm } from "./results.ts";

/** What is wrong with a line of a file of requests; `line` counts from 1. */
export type RequestFault = {
  readonly code: string;
  readonly message: string;
  readonly param: string | null;
  readonly line: number;
};

const MAX_ID_CHARS = 256;
const OPEN_BRACE = 0x7b;

/** The line of a batch for a line of a file of requests, or what is wrong with it. */
export function lineOfRequest(
  bytes: Buffer,
  endpoint: string,
  line: number,
): { readonly customId: string; readonly line: Buffer } | RequestFault {
  const fault = (code: string, param: string | null, message: string) => ({ code, param, message, line });
  const broken = checkJson(bytes, MAX_DEPTH + 1);
  if (broken) return fault("invalid_json_line", null, broken.message);
  const members = findMembers(bytes, ["custom_id", "method", "url", "body"]);
  const textOf = (name: string): unknown => {
    const text = members.get(name)?.bytes.toString();
    return text?.startsWith('"') ? JSON.parse(text) : undefined;
  };
  const customId = textOf("custom_id");
  if (typeof customId !== "string" || customId === "" || customId.length > MAX_ID_CHARS)
    return fault(
      "invalid_custom_id",
      "custom_id",
      `custom_id must be a text of 1 to ${MAX_ID_CHARS} characters.`,
    );
  if (textOf("method") !== "POST") return fault("invalid_method", "method", 'method must be "POST".');
  if (textOf("url") !== endpoint)
    return fault("mismatched_endpoint", "url", `url must be the batch's endpoint, ${endpoint}.`);
  const body = members.get("body")?.bytes;
  if (body?.[0] !== OPEN_BRACE) return fault("invalid_body", "body", "body must be an object.");
  const head = Buffer.from(`{"id":${JSON.stringify(customId)},"input":`);
  return { customId, line: Buffer.concat([head, body, Buffer.from("}\n")]) };
}

/** A line of results as OpenAI's clients get it: in the file of errors, or in that of responses. */
export function openAiForm(isErrors: boolean): ResultForm {
  return { wants: (state) => (state !== "success") === isErrors, told: lineOfResponse };
}

function lineOfResponse(line: LineResult): readonly [before: string, after: string] {
  const { label, runId, state, statusCode, error } = line;
  const head = `{"id":"batch_req_${(runId ?? "").replaceAll("-", "")}","custom_id":${label ?? "null"},`;
  if (error && (error.code === "cancelled" || error.code === "expired")) {
    const told = { code: `batch_${error.code}`, message: error.message };
    return [`${head}"response":null,"error":${JSON.stringify(told)}}\n`, ""];
  }
  const answer = (status: number): string =>
    `${head}"response":{"status_code":${status},"request_id":${JSON.stringify(runId)},"body":`;
  const end = '},"error":null}\n';
  if (!error) return [answer(statusCode ?? (state === "success" ? 200 : 500)), end];
  const { code, message } = error;
  const body = { error: { message, type: typeOf(code), param: null, code } };
  return [`${answer(statusOf(code))}${JSON.stringify(body)}${end}`, ""];
}

function statusOf(code: string): number {
  return Object.hasOwn(ERRORS, code) ? ERRORS[code as keyof typeof ERRORS].status : 500;
}

function typeOf(code: string): string {
  return Object.hasOwn(ERRORS, code) ? ERRORS[code as keyof typeof ERRORS].type : "app_error";
}
