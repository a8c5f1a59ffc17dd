import type { RunResponse } from "../response.ts";
import type { SpanAttributes } from "./span-queue.ts";

// Attributes of the conventions for GenAI, in the version that `SCHEMA_URL` in otlp.ts names. Nothing is guessed: what an
// answer in the form of OpenAI's does not contain is left out.

/** A larger answer is not parsed: that would hold up other calls. */
const MAX_BYTES = 64 * 1024;
const MAX_TOKENS = 1_000_000_000;
const MAX_TEXT_CHARS = 256;
const MAX_REASONS = 16;
/** What an answer is called that belongs to an operation. */
const OPERATIONS: ReadonlyMap<string, string> = new Map([
  ["chat.completion", "chat"],
  ["chat.completion.chunk", "chat"],
  ["text_completion", "text_completion"],
  ["response", "chat"],
  ["list", "embeddings"],
]);

/** What an answer with the member `usage` says of the model's work; nothing for any other answer. */
export function genAiAttributes(
  { contentType, body, error }: RunResponse,
  chunk: Buffer | null,
): SpanAttributes {
  if (error) return {};
  if (chunk) return attributesOf(chunk);
  return isText(contentType) ? attributesOf(body) : {};
}

/** Whether a chunk of a stream may say what the model did. */
export function hasUsage(chunk: Buffer): boolean {
  return mayHaveUsage(chunk) && USAGE.some((text) => chunk.includes(text));
}

/** One look through the bytes: 0.5 µs for a kilobyte, half of what a text takes in place of the bytes to look for. */
function mayHaveUsage(bytes: Buffer): boolean {
  return bytes.length <= MAX_BYTES && bytes.includes(USAGE_NAME);
}

const USAGE_NAME = Buffer.from('"usage"');

function isText(contentType: string | null): boolean {
  return contentType !== null && (contentType.includes("json") || contentType.includes("event-stream"));
}

/** What a model took in and gave out, as an answer or a chunk says; null for any other. */
export function tokensOf({ contentType, body }: RunResponse, chunk: Buffer | null): ModelTokens | null {
  if (chunk === null && (body.length < LEAST_BYTES || !isText(contentType))) return null;
  const usage = usageIn(chunk ?? body)?.usage;
  return usage ? { input: addable(inputOf(usage)), output: addable(outputOf(usage)) } : null;
}

/** An app may say anything: the sums of a day must stay numbers that the database can hold. */
function addable(tokens: number | undefined): number | null {
  return tokens === undefined || tokens > MAX_TOKENS ? null : tokens;
}

type ModelTokens = { readonly input: number | null; readonly output: number | null };

/** No shorter answer of a model has a `usage`: small results are not even searched for it. */
const LEAST_BYTES = 100;

const USAGE = ['"usage":{', '"usage": {'];

/** The part of an answer that has a `usage`. */
function usageIn(bytes: Buffer): { readonly result: Table; readonly usage: Table } | null {
  if (!hasUsage(bytes)) return null;
  const answer = answerIn(bytes.toString("utf8"));
  const result = answer && (table(answer["usage"]) ? answer : table(answer["result"]));
  const usage = result && table(result["usage"]);
  return usage ? { result, usage } : null;
}

function inputOf(usage: Table): number | undefined {
  return count(usage["prompt_tokens"]) ?? count(usage["input_tokens"]);
}

function outputOf(usage: Table): number | undefined {
  return count(usage["completion_tokens"]) ?? count(usage["output_tokens"]);
}

function attributesOf(bytes: Buffer): SpanAttributes {
  const found = usageIn(bytes);
  if (!found) return {};
  const { result, usage } = found;
  const operation = OPERATIONS.get(text(result["object"]) ?? "");
  const reasons = reasonsIn(result["choices"]);
  return defined({
    "gen_ai.operation.name": operation,
    "gen_ai.response.id": text(result["id"]),
    "gen_ai.response.model": text(result["model"]),
    "gen_ai.response.finish_reasons": reasons.length > 0 ? reasons : undefined,
    "gen_ai.usage.input_tokens": inputOf(usage),
    "gen_ai.usage.output_tokens": outputOf(usage),
  });
}

type Table = Readonly<Record<string, unknown>>;

/** JSON, or the last of the messages of an event stream that has a `usage`. */
function answerIn(body: string): Table | undefined {
  const isWhole = body.trimStart().startsWith("{");
  const message = isWhole
    ? body
    : body.split("\n").findLast((line) => DATA.test(line) && line.includes('"usage"'));
  try {
    return table(JSON.parse(message?.replace(DATA, "") ?? "null"));
  } catch {
    return undefined;
  }
}

const DATA = /^data:\s*/;

function table(value: unknown): Table | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Table) : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, MAX_TEXT_CHARS) : undefined;
}

function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function reasonsIn(choices: unknown): string[] {
  if (!Array.isArray(choices)) return [];
  return choices
    .slice(0, MAX_REASONS)
    .flatMap((choice: unknown) => text(table(choice)?.["finish_reason"]) ?? []);
}

function defined(attributes: Readonly<Record<string, SpanAttributes[string] | undefined>>): SpanAttributes {
  return Object.fromEntries(
    Object.entries(attributes).filter(
      (entry): entry is [string, SpanAttributes[string]] => entry[1] !== undefined,
    ),
  );
}
