import type { JsonSchema } from "./app.ts";

const LOCAL = "#/$defs/";
const COMPONENT = "#/components/schemas/";
/** Deeper than any type in a program, because a replica may send any schema. */
const MAX_DEPTH = 100;
/** Keywords that hold one schema, a list of them, or one for each name. */
const SINGLE = new Set([
  "items",
  "additionalProperties",
  "propertyNames",
  "contains",
  "not",
  "if",
  "then",
  "else",
  "unevaluatedItems",
  "unevaluatedProperties",
  "contentSchema",
]);
const LISTS = new Set(["allOf", "anyOf", "oneOf", "prefixItems"]);
const MAPS = new Set(["properties", "patternProperties", "dependentSchemas"]);

/** The new `$ref`; undefined leaves it out. */
type Rename = (ref: string) => string | undefined;

/**
 * The named schemas of one OpenAPI document. A schema's own `$defs` move to the document, because there `#/$defs/…`
 * would point at the root of the document.
 */
export class SchemaComponents {
  readonly #schemas = new Map<string, unknown>();
  /** By name, as text to compare. */
  readonly #texts = new Map<string, string>();

  all(): Record<string, unknown> {
    return Object.fromEntries(this.#schemas);
  }

  /** Names a schema of the document's own, and returns the reference to it. */
  name(name: string, schema: JsonSchema): JsonSchema {
    this.#put(name, schema);
    return { $ref: COMPONENT + name };
  }

  /**
   * Adds a schema and returns it as the document has it. If a name is taken by another schema, `alternative` or a
   * number is appended.
   */
  adopt({ $defs, ...schema }: JsonSchema, alternative: string): JsonSchema {
    const definitions = isObject($defs) ? Object.entries($defs) : [];
    for (const suffix of suffixes(alternative)) {
      const names = new Map(definitions.map(([name]) => [name, componentName(name) + suffix]));
      const rename: Rename = (ref) => {
        if (/^https?:/.test(ref)) return ref;
        const name = ref.startsWith(LOCAL) ? names.get(fromPointer(ref.slice(LOCAL.length))) : undefined;
        return name && COMPONENT + name;
      };
      const written = definitions.map(
        ([name, definition]) => [names.get(name) ?? "", rewrite(definition, rename, 0)] as const,
      );
      if (written.every(([name, definition]) => this.#isFree(name, definition))) {
        for (const [name, definition] of written) this.#put(name, definition);
        return rewrite(schema, rename, 0) as JsonSchema;
      }
    }
    return {};
  }

  #isFree(name: string, schema: unknown): boolean {
    const taken = this.#texts.get(name);
    return taken === undefined || taken === JSON.stringify(schema);
  }

  #put(name: string, schema: unknown): void {
    this.#schemas.set(name, schema);
    this.#texts.set(name, JSON.stringify(schema));
  }
}

function* suffixes(alternative: string): Generator<string> {
  yield "";
  yield alternative;
  for (let number = 2; number < 100; number++) yield `_${number}`;
}

/** The names that OpenAPI allows. */
function componentName(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9._-]/g, "_");
}

/** A name in a JSON pointer inside a URL. */
function fromPointer(text: string): string {
  return text.replaceAll("~1", "/").replaceAll("~0", "~");
}

/** The schema with its references changed, and no `$defs` or `$schema` of its own. */
function rewrite(schema: unknown, rename: Rename, depth: number): unknown {
  if (typeof schema === "boolean") return schema;
  if (!isObject(schema) || depth > MAX_DEPTH) return {};
  const each = (inner: unknown): unknown => rewrite(inner, rename, depth + 1);
  const members = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    if (keyword === "$ref") {
      const ref = typeof value === "string" ? rename(value) : undefined;
      return ref === undefined ? [] : [[keyword, ref]];
    }
    if (keyword.startsWith("$")) return [];
    if (SINGLE.has(keyword)) return [[keyword, each(value)]];
    if (LISTS.has(keyword)) return Array.isArray(value) ? [[keyword, value.map(each)]] : [];
    if (MAPS.has(keyword)) return isObject(value) ? [[keyword, mapValues(value, each)]] : [];
    if (keyword === "discriminator") return [[keyword, discriminator(value, rename)]];
    return [[keyword, value]];
  });
  return Object.fromEntries(members);
}

/** OpenAPI's own keyword, which pydantic writes too: its mapping holds references. */
function discriminator(value: unknown, rename: Rename): unknown {
  if (!isObject(value) || !("mapping" in value) || !isObject(value.mapping)) return value;
  return { ...value, mapping: mapValues(value.mapping, (ref) => rename(String(ref)) ?? ref) };
}

function mapValues(value: object, each: (inner: unknown) => unknown): object {
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, each(inner)]));
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
