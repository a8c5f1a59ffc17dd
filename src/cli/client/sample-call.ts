import * as z from "zod/mini";
import type { JsonSchema } from "../../model/app.ts";
import { fits } from "../../shapes/shape.ts";
import { programName, shellWord } from "../program-name.ts";
import type { Api } from "./api.ts";
import { parsedJson } from "./explain.ts";
import { textOf } from "./http.ts";

type Callable = {
  readonly name: string;
  /** `{api_url}/v4/{project_id}/{app_name}` */
  readonly endpoint: string;
  /** A path that answers where the app is a server; null where it offers functions. */
  readonly serverPath: string | null;
  readonly sample: SampleCall | null;
  /** The token, as a shell reads it between double quotes. */
  readonly token: string;
  /** Options that `millrace call` needs to find the service, if any. */
  readonly options?: readonly string[];
};

/** Where an app is called first, and two commands to paste. */
export function callHints(app: Callable): { url: string; commands: string[] } {
  const { name, endpoint, serverPath, sample, token, options = [] } = app;
  const { functionName, values } = sample ?? { functionName: "run", values: {} };
  const url = `${endpoint}${serverPath ?? `/${functionName}`}`;
  const request = `'${url}' -H "Authorization: Bearer ${token}"`;
  const call = (...words: readonly string[]): string =>
    [programName(), "call", ...[name, ...words, ...options].map(shellWord)].join(" ");
  if (serverPath !== null) return { url, commands: [call(serverPath), `curl ${request}`] };
  const words = [
    ...(functionName === "run" ? [] : [functionName]),
    ...Object.entries(values).map(([key, value]) => `${key}=${wordOf(value)}`),
  ];
  const data = `'${JSON.stringify(values).replaceAll("'", `'\\''`)}'`;
  return {
    url,
    commands: [call(...words), `curl -X POST ${request} -H 'Content-Type: application/json' -d ${data}`],
  };
}

/** A value as `millrace call` reads it: text bare unless it looks like JSON. */
function wordOf(value: unknown): string {
  return typeof value === "string" && parsedJson(value) === undefined ? value : JSON.stringify(value);
}

/** A function to try first, with a value for each argument it requires. */
type SampleCall = {
  readonly functionName: string;
  readonly values: Readonly<Record<string, unknown>>;
};

const SCHEMA = z.record(z.string(), z.unknown());
const CONTENT = z.object({ "application/json": z.object({ schema: SCHEMA }) });
const PATH = z.object({ post: z.object({ requestBody: z.object({ content: CONTENT }) }) });
const DOCUMENT = z.object({
  paths: z.record(z.string(), PATH),
  components: z.object({ schemas: z.record(z.string(), SCHEMA) }),
});

type Schemas = Readonly<Record<string, JsonSchema>>;

/** Deeper than any argument one would type; a schema may refer to itself. */
const MAX_DEPTH = 5;

/** A call of an app that its functions accept; null if the app does not say what they take. */
export async function sampleCall(api: Api, app: string): Promise<SampleCall | null> {
  const answer = await api.open("GET", await api.appUrl(app, "openapi.json"));
  const text = await textOf(answer);
  if (answer.status !== 200) return null;
  const document: unknown = JSON.parse(text);
  return fits(DOCUMENT, document) ? sampleIn(document) : null;
}

/** The same, of a document; `run` if there is one, else the first function. */
export function sampleIn({ paths, components }: z.infer<typeof DOCUMENT>): SampleCall | null {
  const name = "/run" in paths ? "/run" : Object.keys(paths)[0];
  const operation = name === undefined ? undefined : paths[name];
  if (name === undefined || !operation) return null;
  const { schema } = operation.post.requestBody.content["application/json"];
  const values = sampleOf(schema, components.schemas, 0);
  return { functionName: name.slice(1), values: values as SampleCall["values"] };
}

function sampleOf(schema: JsonSchema, schemas: Schemas, depth: number): unknown {
  const { $ref, enum: values, anyOf, oneOf, type, required, properties } = schema as Fields;
  if (depth > MAX_DEPTH) return null;
  if ($ref !== undefined) return sampleOf(schemas[$ref.split("/").at(-1) ?? ""] ?? {}, schemas, depth + 1);
  if ("const" in schema) return schema["const"];
  if (values?.[0] !== undefined) return values[0];
  const [first] = anyOf ?? oneOf ?? [];
  if (first) return sampleOf(first, schemas, depth + 1);
  switch (Array.isArray(type) ? type[0] : type) {
    case "integer":
    case "number":
      return 1;
    case "boolean":
      return true;
    case "array":
      return [];
    case "null":
      return null;
    case "object":
      return Object.fromEntries(
        (required ?? []).map((name) => [name, sampleOf(properties?.[name] ?? {}, schemas, depth + 1)]),
      );
    default:
      return "text";
  }
}

type Fields = {
  readonly $ref?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly type?: string | readonly string[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
};
