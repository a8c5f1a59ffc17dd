import { z } from "zod";
import { ERRORS } from "../../model/errors.ts";
import type { ErrorCode } from "../../model/errors.ts";
import type { AnyOperation } from "./operation.ts";

const VERSION = "1.0.0";
/** What any operation may answer. */
const COMMON: readonly ErrorCode[] = ["internal", "storage_unavailable"];
const WITH_TOKEN: readonly ErrorCode[] = ["unauthorized", "forbidden"];
const WITH_INPUT: readonly ErrorCode[] = ["bad_request"];

const ERROR_SCHEMA = z.object({
  message: z.string(),
  code: z.string(),
  request_id: z.string(),
  error: z.object({ message: z.string(), code: z.string(), type: z.string() }),
  details: z.array(z.unknown()).optional(),
});

/** The OpenAPI 3.1 document of the operations. */
export function openApiDocument(operations: readonly AnyOperation[]): object {
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
      schemas: { Error: schemaOf(ERROR_SCHEMA, "output") },
      securitySchemes: { bearerAuth: { type: "http", scheme: "bearer", bearerFormat: "JWT" } },
    },
  };
}

function describe(operation: AnyOperation): object {
  const { id, tag, summary, access, params, query, body, response } = operation;
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(access !== null && { security: [{ bearerAuth: [] }] }),
    parameters: [...parametersOf(params, "path"), ...parametersOf(query, "query")],
    ...(body && {
      requestBody: {
        required: !body.safeParse(undefined).success,
        content: { "application/json": { schema: schemaOf(body, "input") } },
      },
    }),
    responses: {
      "200": {
        description: "OK",
        content: { "application/json": { schema: schemaOf(response, "output") } },
      },
      ...errorResponses(operation),
    },
  };
}

function errorResponses({ access, params, query, body, errors = [] }: AnyOperation): Record<string, object> {
  const codes = [
    ...errors,
    ...COMMON,
    ...(access === null ? [] : WITH_TOKEN),
    ...(params || query || body ? WITH_INPUT : []),
  ];
  const byStatus = Map.groupBy(new Set(codes), (code) => String(ERRORS[code].status));
  return Object.fromEntries(
    [...byStatus].map(([status, listed]) => [
      status,
      {
        description: listed.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join(" "),
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    ]),
  );
}

function parametersOf(schema: z.ZodType | undefined, place: "path" | "query"): object[] {
  if (!schema) return [];
  const { properties = {}, required = [] } = schemaOf(schema, "input") as {
    properties?: Record<string, object>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === "path" || required.includes(name),
    schema: property,
  }));
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
}
