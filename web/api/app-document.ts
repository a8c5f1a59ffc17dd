import { queryOptions } from "@tanstack/react-query";
import { APP_DOCUMENT } from "../../src/shapes/apps.ts";
import type { JsonSchema } from "../../src/model/app.ts";
import type { AppDocument } from "../../src/shapes/apps.ts";
import { readAnswer } from "./answer.ts";
import { askApps } from "./http.ts";

/** A function that an app has, and what it takes. */
export type AppFunction = {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  /** It gives one thing after another. */
  readonly isStream: boolean;
  readonly arguments: readonly Argument[];
  /** It takes arguments that it does not name. */
  readonly takesMore: boolean;
};

/** One argument, and the field that it is filled in with. */
export type Argument = {
  readonly name: string;
  readonly isRequired: boolean;
  readonly kind: "text" | "number" | "boolean" | "choice" | "json";
  /** Of a choice: each as JSON. */
  readonly options: readonly string[];
  /** Its type, in a few words. */
  readonly type: string;
  /** JSON; undefined without one. */
  readonly defaultText: string | undefined;
};

/** The functions of an app, as its own document has them. An app that never ran is started for it. */
export function functionsQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["functions", projectId, appName],
    queryFn: async ({ signal }) => {
      const response = await askApps(`/v4/${projectId}/${appName}/openapi.json`, { signal });
      return functionsOf(await readAnswer(APP_DOCUMENT, response));
    },
    staleTime: 30_000,
  });
}

function functionsOf({ paths, components }: AppDocument): AppFunction[] {
  const schemas = components?.schemas ?? {};
  return Object.entries(paths).flatMap(([path, { post }]): AppFunction[] => {
    if (!post) return [];
    const schema = post.requestBody?.content?.["application/json"]?.schema ?? {};
    const required = Array.isArray(schema["required"]) ? schema["required"] : [];
    const properties = isObject(schema["properties"]) ? Object.entries(schema["properties"]) : [];
    return [
      {
        name: path.slice(1),
        summary: post.summary ?? "",
        description: post.description ?? "",
        isStream: post.responses?.["200"]?.content?.["text/event-stream"] !== undefined,
        arguments: properties.map(([name, type]) =>
          argumentOf(name, isObject(type) ? type : {}, required.includes(name), schemas),
        ),
        takesMore: schema["additionalProperties"] !== false,
      },
    ];
  });
}

function argumentOf(
  name: string,
  given: JsonSchema,
  isRequired: boolean,
  schemas: Readonly<Record<string, JsonSchema>>,
): Argument {
  const schema = plainSchema(given, schemas);
  const { enum: options, type } = schema;
  const hasDefault = Object.hasOwn(given, "default");
  return {
    name,
    isRequired,
    ...kindOf(options, type),
    type: typeText(schema),
    defaultText: hasDefault ? JSON.stringify(given["default"]) : undefined,
  };
}

function kindOf(options: unknown, type: unknown): Pick<Argument, "kind" | "options"> {
  if (Array.isArray(options)) {
    return { kind: "choice", options: options.map((option) => JSON.stringify(option)) };
  }
  if (type === "string") return { kind: "text", options: [] };
  if (type === "integer" || type === "number") return { kind: "number", options: [] };
  if (type === "boolean") return { kind: "boolean", options: [] };
  return { kind: "json", options: [] };
}

/** What a schema refers to; of a type or nothing, the type. */
function plainSchema(
  schema: JsonSchema,
  schemas: Readonly<Record<string, JsonSchema>>,
  depth = 0,
): JsonSchema {
  const { $ref: ref, anyOf } = schema;
  if (depth > 10) return {};
  if (typeof ref === "string") {
    const target = schemas[ref.slice(ref.lastIndexOf("/") + 1)];
    return target ? plainSchema(target, schemas, depth + 1) : {};
  }
  if (!Array.isArray(anyOf)) return schema;
  const types = anyOf.filter((each): each is JsonSchema => isObject(each) && each["type"] !== "null");
  return types.length === 1 && types[0] ? plainSchema(types[0], schemas, depth + 1) : {};
}

function typeText({ type, format, items, title }: JsonSchema): string {
  if (type === "array" && isObject(items) && typeof items["type"] === "string")
    return `list of ${items["type"]}`;
  if (type === "object" && typeof title === "string") return title;
  if (typeof format === "string") return format;
  return typeof type === "string" ? type : "any JSON";
}

function isObject(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
