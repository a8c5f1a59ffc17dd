import { z } from "zod";
import { type ErrorCode, ERRORS } from "../../model/errors.ts";
import { ERROR, type Shape } from "../../shapes/shape.ts";
import type { Operation } from "./operation.ts";

const VERSION = "1.0.0";
const COMMON: readonly ErrorCode[] = [
  "bad_request",
  "too_many_connections",
  "too_many_in_flight",
  "internal",
  "overloaded",
  "storage_unavailable",
];
const HEAVY: readonly ErrorCode[] = ["query_timeout"];
const WITH_TOKEN: readonly ErrorCode[] = ["unauthorized", "forbidden"];
/** Of every method that may have a body, even if it is ignored. */
const WITH_BODY: readonly ErrorCode[] = [
  "invalid_json",
  "request_timeout",
  "body_too_large",
  "unsupported_media_type",
];

const BYTES = { "application/octet-stream": { schema: { type: "string", format: "binary" } } };

export function openApiDocument(operations: readonly Operation[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of operations) {
    paths[operation.path] ??= {};
    paths[operation.path]![operation.method.toLowerCase()] = describe(operation);
  }
  return {
    openapi: "3.1.0",
    info: { title: "Millrace management API", version: VERSION },
    paths,
    components: {
      schemas: { Error: schemaOf(ERROR, "output") },
      securitySchemes: { bearerAuth: { type: "http", scheme: "bearer", bearerFormat: "JWT" } },
    },
  };
}

function describe(operation: Operation): object {
  const { id, tag, summary, access, params, query, response, givesBytes, givesLines, alsoGives } = operation;
  const schema = schemaOf(response, "output");
  const content = givesBytes ? BYTES : givesLines ? { "application/x-ndjson": { schema } } : json(schema);
  const others = alsoGives && { [alsoGives]: { schema: { type: "string" } } };
  const requestBody = bodyOf(operation);
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(access !== null && { security: [{ bearerAuth: [] }] }),
    // OpenAPI has no field for the role that a bearer needs.
    "x-access": access ?? "anybody",
    parameters: [...parametersOf(params, "path"), ...parametersOf(query, "query")],
    ...(requestBody && { requestBody }),
    responses: {
      "200": { description: "OK", content: { ...content, ...others } },
      ...(givesBytes && { "206": { description: "The range that was asked for", content } }),
      ...errorResponses(operation),
    },
  };
}

function bodyOf({ body, takesForm, takesBytes }: Operation): object | null {
  if (takesBytes) return { required: true, content: BYTES };
  if (!body) return null;
  const content = json(schemaOf(body, "input"));
  return {
    required: !z.safeParse(body, undefined).success,
    content: {
      ...content,
      ...(takesForm && { "application/x-www-form-urlencoded": content["application/json"] }),
    },
  };
}

function errorResponses(operation: Operation): Record<string, object> {
  const { method, access, takesBytes, refusal, errors = [] } = operation;
  const ours = { $ref: "#/components/schemas/Error" };
  const codes = [
    ...errors,
    ...COMMON,
    ...(access === null ? [] : WITH_TOKEN),
    ...("isHeavy" in operation ? HEAVY : []),
    ...(method === "GET" || takesBytes ? [] : WITH_BODY),
  ];
  const byStatus = Map.groupBy(new Set(codes), (code) => String(ERRORS[code].status));
  return Object.fromEntries(
    [...byStatus].map(([status, listed]) => [
      status,
      {
        description: listed.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join(" "),
        content: json(refusal && status === "400" ? { anyOf: [schemaOf(refusal, "output"), ours] } : ours),
      },
    ]),
  );
}

function parametersOf(schema: Shape | undefined, location: "path" | "query"): object[] {
  if (!schema) return [];
  const { properties = {}, required = [] } = schemaOf(schema, "input") as {
    properties?: Record<string, object>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: location,
    required: location === "path" || required.includes(name),
    schema: property,
  }));
}

function json(schema: object) {
  return { "application/json": { schema } };
}

function schemaOf(schema: Shape, io: "input" | "output"): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
}
