import { usage } from "../failure.ts";
import type { CallFlags } from "./call-flags.ts";
import { validateHeaderName, validateHeaderValue } from "../../kit/node-http.ts";

/** The headers that the options of a call ask for, by their names in lower case; a line of one's own comes first. */
export function readHeaders({ stream, key, header = [] }: CallFlags): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of header) {
    const [name, value] = readLine(line);
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value;
  }
  return {
    ...(stream && { accept: "text/event-stream" }),
    ...(key !== undefined && { "idempotency-key": key }),
    ...headers,
  };
}

function readLine(line: string): [name: string, value: string] {
  const index = line.indexOf(":");
  const name = line.slice(0, Math.max(index, 0)).trim().toLowerCase();
  const value = line.slice(index + 1).trim();
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  } catch {
    throw usage(`${JSON.stringify(line)} is not a header`, "such as -H 'Accept: text/plain'");
  }
  return [name, value];
}
