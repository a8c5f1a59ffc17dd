import { programName, shellWord } from "./output/program-name.ts";
import type { SampleCall } from "./sample-call.ts";

/** What the commands to paste are made of. */
type Callable = {
  readonly name: string;
  /** `{api_url}/v4/{project_id}/{app_name}` */
  readonly endpoint: string;
  /** A path that answers where the app is a server; null where it offers functions. */
  readonly serverPath: string | null;
  /** The function to call and its arguments; null if unknown. */
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
  if (typeof value !== "string") return JSON.stringify(value);
  try {
    JSON.parse(value);
    return JSON.stringify(value);
  } catch {
    return value;
  }
}
