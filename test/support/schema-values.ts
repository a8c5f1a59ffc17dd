import * as fc from "fast-check";

type JsonSchema = {
  readonly type?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly pattern?: string;
  readonly allOf?: readonly JsonSchema[];
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxItems?: number;
  readonly items?: JsonSchema;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: JsonSchema | boolean;
  readonly propertyNames?: JsonSchema;
};

const MAX_TEXT = 300;
const TIMES = { min: new Date("2000-01-01"), max: new Date("2035-01-01"), noInvalidDate: true };

const FORMATS: Record<string, () => fc.Arbitrary<string>> = {
  "date-time": () => fc.date(TIMES).map((date) => date.toISOString()),
  date: () => fc.date(TIMES).map((date) => date.toISOString().slice(0, 10)),
  uuid: () => fc.uuid(),
  email: () => fc.integer({ min: 0, max: 9 }).map((number) => `person${number}@example.com`),
};

/** Texts of every kind that people and attackers send. */
export const anyText = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom(
    "",
    " ",
    "\0",
    "..",
    "../../etc/passwd",
    "%",
    "'; drop table runs; --",
    "__proto__",
    "\ud800",
  ),
  fc.constantFrom(
    "null",
    "-1",
    "1e999",
    "9".repeat(30),
    "a".repeat(MAX_TEXT),
    "<script>",
    "\u202e",
    "e\u0301",
  ),
);

/** Any JSON, and members that mean something to the language itself. */
const anyJson = fc.oneof(
  fc.jsonValue({ maxDepth: 3, stringUnit: "binary" }),
  fc.constantFrom(null, [], {}, "", 0, -1, 1e308, true, [[[]]]),
  fc.constant(JSON.parse('{"__proto__":{"role":"admin"},"constructor":1,"toString":[]}')),
);

/** Values that a JSON schema takes, or nearly: what only the code knows may still refuse them. */
export function valuesOf(schema: JsonSchema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(valuesOf));
  switch (schema.type) {
    case "object":
      return objectsOf(schema);
    case "array":
      return fc.array(valuesOf(schema.items ?? {}), { maxLength: Math.min(schema.maxItems ?? 4, 4) });
    case "string":
      return textsOf(schema);
    case "integer":
    case "number":
      return fc.integer({
        min: Math.max(schema.minimum ?? -50, -1e9),
        max: Math.min(schema.maximum ?? 50, 1e9),
      });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    default:
      return anyJson;
  }
}

/** What a schema takes, what it nearly takes, and anything at all. */
export function aroundOf(schema: JsonSchema): fc.Arbitrary<unknown> {
  const good = valuesOf(schema);
  const withMore = fc.tuple(good, anyJson).map(([value, more]) => {
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? { ...value, unheardOf: more } : value;
  });
  const nearly = fc.tuple(good, fc.nat(), anyJson).map(([value, place, odd]) => {
    const names = typeof value === "object" && value !== null ? Object.keys(value) : [];
    const name = names[place % Math.max(names.length, 1)];
    return name === undefined ? odd : { ...(value as object), [name]: odd };
  });
  return fc.oneof({ weight: 4, arbitrary: good }, withMore, { weight: 2, arbitrary: nearly }, anyJson);
}

function objectsOf({ properties = {}, required = [], ...schema }: JsonSchema): fc.Arbitrary<unknown> {
  const { additionalProperties: rest } = schema;
  if (Object.keys(properties).length === 0 && typeof rest === "object") {
    const names = textsOf(schema.propertyNames ?? { type: "string" });
    return fc.dictionary(names, valuesOf(rest), { maxKeys: 4 });
  }
  const members = Object.fromEntries(
    Object.entries(properties).map(([name, member]) => [name, valuesOf(member)]),
  );
  return fc.record(members, { requiredKeys: Object.keys(members).filter((name) => required.includes(name)) });
}

function textsOf({
  format = "",
  pattern,
  minLength = 0,
  maxLength = MAX_TEXT,
}: JsonSchema): fc.Arbitrary<string> {
  const known = FORMATS[format]?.();
  if (known) return known;
  const size = { minLength, maxLength: Math.max(minLength, Math.min(maxLength, MAX_TEXT)) };
  // Only patterns as simple as those that name things; the others are tried with plain texts.
  if (pattern !== undefined && /^\^\[[^\]]+\]\{\d+,\d+\}\$$/.test(pattern)) {
    return fc.stringMatching(new RegExp(pattern)).map((text) => text.slice(0, MAX_TEXT));
  }
  return fc.string({ ...size, unit: "grapheme-ascii" });
}
