import { readFileSync } from "node:fs";
import { validateHeaderName, validateHeaderValue } from "../../kit/node-http.ts";
import { usage } from "../failure.ts";
import { readStdin } from "../terminal.ts";
import { parsedJson } from "./explain.ts";
import type { Numbers, RemoteFlags, Switches, Texts } from "./task.ts";

export type CallFlags = RemoteFlags &
  Texts<"data" | "method" | "webhook" | "key" | "priority" | "delay" | "ttl" | "timeout"> &
  Texts<"concurrencyKey" | "fairnessKey"> &
  Numbers<"linger" | "maxAttempts"> &
  Switches<"ws" | "async" | "wait" | "stream"> & {
    readonly header?: readonly string[];
    readonly tag?: readonly string[];
  };

type Pair = { readonly key: string; readonly json: string };

const FUNCTION = /^[A-Za-z]\w*(?:\/[\w./-]+)?$/;

/** What the options ask of the queue, as a query says it. */
export function queueQuery(flags: CallFlags): [string, string][] {
  const { priority, delay, ttl, timeout, maxAttempts, concurrencyKey, tag = [] } = flags;
  const keys = { max_attempts: maxAttempts, concurrency_key: concurrencyKey };
  const given = Object.entries({ priority, delay, ttl, timeout, ...keys });
  const asked = given.flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  return [...asked, ...tag.map((text): [string, string] => ["tag", text])];
}

/** A function's name, if the first word is one, and `key=value` pairs. */
export function readWords(words: readonly string[]): { functionName: string; pairs: Pair[] } {
  const [first] = words;
  const isNamed = first !== undefined && !first.includes("=");
  if (isNamed && !FUNCTION.test(first)) {
    throw usage(`${JSON.stringify(first)} is neither a function's name nor key=value`);
  }
  const rest = isNamed ? words.slice(1) : words;
  return { functionName: isNamed ? first : "run", pairs: rest.map(readPair) };
}

/** The JSON object to send: the text of `--data` with the pairs added, every number as it was typed. */
export async function readArguments(data: string | undefined, pairs: readonly Pair[]): Promise<string> {
  const text = data === undefined ? "{}" : String(await readBody(data)).trim();
  const given = parseObject(text);
  const seen = new Set(Object.keys(given));
  for (const { key } of pairs) {
    if (seen.has(key)) throw usage(`${JSON.stringify(key)} is given twice`);
    seen.add(key);
  }
  if (pairs.length === 0) return text;
  const members = pairs.map(({ key, json }) => `${JSON.stringify(key)}:${json}`).join(",");
  const isEmpty = Object.keys(given).length === 0;
  return `${text.slice(0, -1)}${isEmpty ? "" : ","}${members}}`;
}

/** The body that `--data` names, byte for byte. */
export async function readBody(data: string): Promise<string | Buffer> {
  if (data === "-") return await readStdin("--data -");
  return data.startsWith("@") ? readBytes(data.slice(1)) : data;
}

/** `key=value`: JSON where the value is JSON, else text; `key=@file` is the text of that file. */
export function readPair(word: string): Pair {
  const index = word.indexOf("=");
  if (index < 1) throw usage(`${JSON.stringify(word)} is not key=value`);
  const [key, value] = [word.slice(0, index), word.slice(index + 1)];
  if (value.startsWith("@")) return { key, json: JSON.stringify(readBytes(value.slice(1)).toString()) };
  return { key, json: parsedJson(value) === undefined ? JSON.stringify(value) : value };
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw usage(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? "it is too large"}`);
  }
}

function parseObject(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw usage(`--data is not JSON: ${(error as Error).message}`, `such as --data '{"name": "Ada"}'`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw usage("--data must be a JSON object with the function's arguments");
  }
  return value;
}

/** The headers that the options of a call ask for, by their names in lower case; a line of one's own comes first. */
export function readHeaders({ stream, key, fairnessKey, header = [] }: CallFlags): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of header) {
    const [name, value] = readLine(line);
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value;
  }
  return {
    ...(stream && { accept: "text/event-stream" }),
    ...(key !== undefined && { "idempotency-key": key }),
    ...(fairnessKey !== undefined && { "x-millrace-fairness-key": fairnessKey }),
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
