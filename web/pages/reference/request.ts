import type { ApiOperation } from "../../api/api-document.ts";
import { shellWord } from "../../api/snippets.ts";

/** What somebody has filled in for an operation. */
export type Filled = {
  /** By name; empty where it is left out. */
  readonly values: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
  /** For an operation that takes bytes. */
  readonly file: File | null;
};

/** The path with its parameters and query filled in; a parameter that is missing stays as `{name}`. */
function addressOf({ path, parameters }: ApiOperation, { values }: Filled): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (placeholder, name: string) =>
    values[name] ? encodeURIComponent(values[name]) : placeholder,
  );
  const query = new URLSearchParams();
  for (const { name, in: kind } of parameters) {
    if (kind === "query" && values[name]) query.set(name, values[name]);
  }
  return query.size === 0 ? filled : `${filled}?${query}`;
}

/** The parameters of the path that are not filled in yet. */
export function missingOf({ parameters }: ApiOperation, { values }: Filled): string[] {
  return parameters.filter(({ name, required }) => required && !values[name]).map(({ name }) => name);
}

/** Whether the body is a file's bytes instead of JSON. */
export function takesBytes({ body }: ApiOperation): boolean {
  return body !== null && "application/octet-stream" in body.content;
}

/** The request as a command; the token comes from the environment. */
export function curlOf(operation: ApiOperation, filled: Filled, origin: string): string {
  const { method, body, access } = operation;
  const lines = [
    `curl ${method === "GET" ? "" : `-X ${method} `}${shellWord(origin + addressOf(operation, filled))}`,
  ];
  if (access !== "anybody") lines.push(`-H "Authorization: Bearer $MILLRACE_TOKEN"`);
  if (takesBytes(operation)) lines.push(`--data-binary @${shellWord(filled.file?.name ?? "FILE")}`);
  else if (body && filled.body.trim() !== "")
    lines.push(`-H "Content-Type: application/json"`, `-d ${shellWord(filled.body)}`);
  return lines.join(" \\\n  ");
}

/** Sends the request, as the holder of the token. */
export async function sendRequest(
  operation: ApiOperation,
  filled: Filled,
  token: string | null,
  signal: AbortSignal,
): Promise<Response> {
  const isJson = operation.body !== null && !takesBytes(operation) && filled.body.trim() !== "";
  const body = takesBytes(operation) ? filled.file : isJson ? filled.body : null;
  return await fetch(addressOf(operation, filled), {
    method: operation.method,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(isJson && { "content-type": "application/json" }),
    },
    ...(body !== null && { body }),
    // A session's cookie is the dashboard's own affair, whatever is tried here.
    ...(token !== null && { credentials: "omit" as const }),
    signal,
  });
}
