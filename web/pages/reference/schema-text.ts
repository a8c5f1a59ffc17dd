import type { Schema } from "../../api/schema.ts";

/** A member of an object as a row of a table; what is inside it is in rows of its own, one level deeper. */
export type SchemaRow = {
  readonly name: string;
  readonly depth: number;
  readonly type: string;
  readonly isRequired: boolean;
  /** What a value has to keep to: bounds, a default. */
  readonly rule: string;
};

const MAX_DEPTH = 6;
/** What a value of a format looks like. */
const SAMPLES: Readonly<Record<string, readonly string[]>> = {
  // To the millisecond, and finer where the pattern asks for it.
  "date-time": ["2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00.000000Z", "2026-01-31T12:00:00.000000000Z"],
  date: ["2026-01-31"],
  uuid: ["019a8a3e-7c1d-7a52-9b1e-3f0c5d2e8a41"],
  email: ["ada@example.com"],
  uri: ["https://example.com/hook"],
};

/** The type in words: `string`, `integer or null`, `"a" | "b"`, `array of object`. */
export function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return schema.$ref.split("/").at(-1) ?? "object";
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return [...new Set(choices.map(typeOf))].join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `array of ${schema.items ? typeOf(schema.items) : "any"}`;
  if (typeof schema.type === "object") return schema.type.join(" or ");
  if (schema.type === undefined) return "any";
  return schema.format === undefined || schema.type !== "string" ? schema.type : `string (${schema.format})`;
}

/** The bounds of a value in words; empty where it has none. */
export function ruleOf(schema: Schema): string {
  const inner = (schema.anyOf ?? schema.oneOf)?.find(({ type }) => type !== "null");
  const { minimum, maximum, minLength, maxLength } = inner ?? schema;
  const parts: string[] = [];
  const isWide = maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER;
  if (minimum !== undefined && minimum > -Number.MAX_SAFE_INTEGER)
    parts.push(isWide ? `at least ${minimum}` : `${minimum} to ${maximum}`);
  else if (!isWide) parts.push(`at most ${maximum}`);
  if (maxLength !== undefined) parts.push(`${minLength ?? 0} to ${maxLength} characters`);
  if (schema.default !== undefined) parts.push(`default ${JSON.stringify(schema.default)}`);
  return parts.join(", ");
}

/** Every member of a schema in the order of its document, each followed by its own members. */
export function rowsOf(schema: Schema, depth = 0): SchemaRow[] {
  const inner = objectOf(schema);
  if (!inner?.properties || depth > MAX_DEPTH) return [];
  const required = new Set(inner.required);
  return Object.entries(inner.properties).flatMap(([name, member]) => [
    { name, depth, type: typeOf(member), isRequired: required.has(name), rule: ruleOf(member) },
    ...rowsOf(member, depth + 1),
  ]);
}

/** The object whose members a schema has: itself, what its list holds, or the one of its choices that is an object. */
function objectOf(schema: Schema): Schema | null {
  if (schema.properties) return schema;
  if (schema.items) return objectOf(schema.items);
  for (const choice of schema.anyOf ?? schema.oneOf ?? []) {
    const found = objectOf(choice);
    if (found) return found;
  }
  return typeof schema.additionalProperties === "object" ? objectOf(schema.additionalProperties) : null;
}

/** A value that fits a schema. A request's example has only what is required, or everything if nothing is. */
export function exampleOf(schema: Schema, isRequest = false, name = ""): unknown {
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices)
    return exampleOf(choices.find(({ type }) => type !== "null") ?? choices[0] ?? {}, isRequest, name);
  const type = typeof schema.type === "object" ? schema.type[0] : schema.type;
  switch (type) {
    case "object":
      return exampleObject(schema, isRequest);
    case "array":
      return schema.items ? [exampleOf(schema.items, isRequest, name)] : [];
    case "string":
      return exampleText(schema) ?? (name === "" ? "text" : name);
    case "integer":
    case "number":
      return Math.max(schema.minimum ?? 1, Math.min(1, schema.maximum ?? 1));
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return {};
  }
}

/** The sample of its format that the pattern takes. */
function exampleText({ format = "", pattern = "" }: Schema): string | undefined {
  return SAMPLES[format]?.find((sample) => new RegExp(pattern).test(sample));
}

function exampleObject({ properties = {}, required = [] }: Schema, isRequest: boolean): object {
  const names = Object.keys(properties);
  const shown = isRequest && required.length > 0 ? names.filter((name) => required.includes(name)) : names;
  return Object.fromEntries(shown.map((name) => [name, exampleOf(properties[name] ?? {}, isRequest, name)]));
}
