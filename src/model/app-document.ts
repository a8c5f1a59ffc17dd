import type { FunctionSignature, JsonSchema, Parameter } from "./app.ts";
import { type ErrorCode, ERRORS } from "./errors.ts";
import { FUNCTION_NAME } from "./names.ts";
import { SchemaComponents } from "./schema-components.ts";

export type AppDocumentInput = {
  readonly appName: string;
  /** The version's number. */
  readonly version: number;
  readonly functions: readonly FunctionSignature[];
  /** The app's address, to which a function's name is added. */
  readonly url: string;
  /** Calls need no token. */
  readonly isPublic: boolean;
  /** Unknown arguments are dropped, not refused. */
  readonly ignoresExtra: boolean;
};

type Shared = AppDocumentInput & {
  readonly components: SchemaComponents;
  readonly error: JsonSchema;
  readonly accepted: JsonSchema;
};

/** The address of runs: a function of that name cannot be called. */
const TAKEN = "runs";
const RUN_ID_SCHEMA = { type: "string", format: "uuid" };
const REQUEST_ID = {
  "X-Request-Id": { description: "The run's id.", required: true, schema: RUN_ID_SCHEMA },
};

const ERROR: JsonSchema = {
  type: "object",
  properties: {
    message: { type: "string" },
    code: { type: "string" },
    request_id: { type: "string" },
    error: {
      type: "object",
      properties: { message: { type: "string" }, code: { type: "string" }, type: { type: "string" } },
      required: ["message", "code", "type"],
    },
    details: { type: "array" },
  },
  required: ["message", "code", "request_id", "error"],
};

const ACCEPTED: JsonSchema = {
  type: "object",
  properties: { run_id: RUN_ID_SCHEMA },
  required: ["run_id"],
  additionalProperties: false,
};

const QUERY = [
  {
    name: "async",
    in: "query",
    description: "`true`: answers 202 at once and runs the function in the background.",
    schema: { type: "boolean", default: false },
  },
  {
    name: "webhookEndpoint",
    in: "query",
    description: "The URL that the response is forwarded to.",
    schema: { type: "string", format: "uri" },
  },
];

/** The OpenAPI 3.1 document of an app: one path for each function that can be called. */
export function appDocument(input: AppDocumentInput): object {
  const { appName, version, functions, url, isPublic } = input;
  const components = new SchemaComponents();
  const error = components.name("Error", ERROR);
  const accepted = components.name("Accepted", ACCEPTED);
  const shared: Shared = { ...input, components, error, accepted };
  const paths = functions
    .filter(({ name }) => FUNCTION_NAME.test(name) && name !== TAKEN)
    .map((signature) => [`/${signature.name}`, { post: operation(signature, shared) }] as const);
  return {
    openapi: "3.1.0",
    info: { title: appName, version: String(version) },
    servers: [{ url }],
    ...(!isPublic && { security: [{ bearerAuth: [] }] }),
    paths: Object.fromEntries(paths),
    components: {
      schemas: components.all(),
      ...(!isPublic && {
        securitySchemes: { bearerAuth: { type: "http", scheme: "bearer", bearerFormat: "JWT" } },
      }),
    },
  };
}

function operation(signature: FunctionSignature, shared: Shared): object {
  const { name, parameters, doc } = signature;
  return {
    operationId: name,
    ...docTexts(doc),
    parameters: QUERY,
    requestBody: {
      // No body counts as {}.
      required: parameters.some(({ required }) => required),
      content: json(bodySchema(signature, shared)),
    },
    responses: {
      "200": success(signature, shared),
      "202": {
        description: "Accepted: an async run.",
        headers: {
          ...REQUEST_ID,
          Location: { description: "The URL of the run.", schema: { type: "string", format: "uri" } },
        },
        content: json(shared.accepted),
      },
      ...(!shared.isPublic && {
        "401": failure("unauthorized", shared),
        "403": failure("forbidden", shared),
      }),
      "422": failure("invalid_arguments", shared),
      "500": failure("app_error", shared),
      default: { description: "Any other error.", content: json(shared.error) },
    },
  };
}

function bodySchema({ parameters }: FunctionSignature, { components, ignoresExtra }: Shared): JsonSchema {
  const schemaOf = ({ schema = {} }: Parameter): JsonSchema => components.adopt(schema, "Input");
  const named = parameters.filter(({ kind }) => kind === "named");
  const rest = parameters.find(({ kind }) => kind === "rest");
  const required = named.filter((parameter) => parameter.required).map(({ name }) => name);
  return {
    type: "object",
    properties: Object.fromEntries(named.map((parameter) => [parameter.name, schemaOf(parameter)])),
    ...(required.length > 0 && { required }),
    additionalProperties: rest ? schemaOf(rest) : ignoresExtra,
  };
}

function success(signature: FunctionSignature, { components }: Shared): object {
  const { isGenerator, streams = isGenerator, returns = {} } = signature;
  const schema = components.adopt(returns, "Output");
  if (streams) {
    return {
      description:
        "One message for each item that the function yields: text unchanged, anything else as JSON.",
      headers: REQUEST_ID,
      content: { "text/event-stream": { schema: { type: "string" }, "x-item-schema": schema } },
    };
  }
  return {
    description: "What the function returned.",
    headers: REQUEST_ID,
    content: json({
      type: "object",
      properties: { run_id: RUN_ID_SCHEMA, result: schema, run_time_ms: { type: "number" } },
      required: ["run_id", "result", "run_time_ms"],
      additionalProperties: false,
    }),
  };
}

function failure(code: ErrorCode, { error }: Shared): object {
  return { description: `\`${code}\`: ${ERRORS[code].message}`, content: json(error) };
}

function json(schema: JsonSchema): object {
  return { "application/json": { schema } };
}

/** A docstring's first line, and the rest of it without the indentation of the code. */
function docTexts(doc: string | null): { summary?: string; description?: string } {
  const [first = "", ...rest] = (doc ?? "").trim().split("\n");
  const indents = rest.filter((line) => line.trim() !== "").map((line) => line.search(/\S/));
  const indent = Math.min(...indents);
  const description = rest
    .map((line) => line.slice(indent).trimEnd())
    .join("\n")
    .trim();
  return { ...(first !== "" && { summary: first.trimEnd() }), ...(description !== "" && { description }) };
}
