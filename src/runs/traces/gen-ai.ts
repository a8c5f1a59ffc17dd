import type { RunResponse } from "../response.ts";
import type { SpanAttributes } from "./span-queue.ts";

// Attributes of the conventions for GenAI, in the version that `SCHEMA_URL` in otlp.ts names. Nothing is guessed: what an
// answer in the form of OpenAI's does not contain is left out.

/** A larger answer is not parsed: that would hold up other calls. */
const MAX_BYTES = 64 * 1024;
const MAX_TEXT_CHARS = 256;
const MAX_REASONS = 16;
/** What an answer is called that belongs to an operation. */
const OPERATIONS: Readonly<Record<string, string>> = {
  "chat.completion": "chat",
  text_completion: "text_completion",
  response: "chat",
  list: "embeddings",
};

/** What an answer with the member `usage` says of the model's work; nothing for any other answer. */
export function genAiAttributes({ contentType, body, error }: RunResponse): SpanAttributes {
  const isSmall = body.length > 0 && body.length <= MAX_BYTES;
  if (error || !isSmall || contentType?.includes("json") !== true || !body.includes('"usage"')) return {};
  const answer = parsed(body);
  const result = answer && (table(answer["usage"]) ? answer : table(answer["result"]));
  const usage = result && table(result["usage"]);
  if (!usage) return {};
  const operation = OPERATIONS[text(result["object"]) ?? ""];
  const reasons = reasonsIn(result["choices"]);
  return defined({
    "gen_ai.operation.name": operation,
    "gen_ai.response.id": text(result["id"]),
    "gen_ai.response.model": text(result["model"]),
    "gen_ai.response.finish_reasons": reasons.length > 0 ? reasons : undefined,
    "gen_ai.usage.input_tokens": count(usage["prompt_tokens"]) ?? count(usage["input_tokens"]),
    "gen_ai.usage.output_tokens": count(usage["completion_tokens"]) ?? count(usage["output_tokens"]),
  });
}

type Table = Readonly<Record<string, unknown>>;

function parsed(body: Buffer): Table | undefined {
  try {
    return table(JSON.parse(body.toString("utf8")));
  } catch {
    return undefined;
  }
}

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
