import type { Answer } from "../api/http.ts";
import { pathUrl } from "../api/server-path.ts";
import { usage } from "../failure.ts";
import { METHODS } from "../../kit/node-http.ts";
import { Progress } from "../output/progress.ts";
import type { Task } from "../task.ts";
import { readArguments, readBody, readPair } from "./call-arguments.ts";
import { accepted } from "./call-async.ts";
import type { CallFlags } from "./call-flags.ts";
import { readHeaders } from "./call-headers.ts";
import { printResponse } from "./print-response.ts";

/** Calls a path of an app that is a server, and prints the response as it comes. */
export async function callPath(
  task: Task<CallFlags>,
  app: string,
  path: string,
  words: readonly string[],
): Promise<void> {
  const { api, flags, out } = task;
  const body = await bodyOf(flags, words);
  const method = methodOf(flags, body !== undefined);
  const url = await pathUrl(api, app, path);
  // Added to the text: read and written again, the query might not be what was typed.
  url.search = [url.search.slice(1), ...ownQuery(flags)].filter(Boolean).join("&");
  const progress = new Progress(`${method} ${app} ${path}`, out.isJson);
  let answer: Answer | null;
  try {
    answer = await api.open(method, url.href, { body, headers: readHeaders(flags) });
    if (flags.async) answer = await accepted(task, app, answer, progress);
  } finally {
    progress.end();
  }
  if (answer) await printResponse({ api, out, app, path, answer });
}

/** Bytes as they are; with `key=value`, a JSON object as a function would get it. */
async function bodyOf({ data }: CallFlags, words: readonly string[]): Promise<string | Buffer | undefined> {
  if (words.length > 0) return await readArguments(data, words.map(readPair));
  return data === undefined ? undefined : await readBody(data);
}

function methodOf({ method, async: isAsync, webhook }: CallFlags, hasBody: boolean): string {
  const needsPost = isAsync || webhook !== undefined;
  const name = (method ?? (hasBody || needsPost ? "POST" : "GET")).toUpperCase();
  if (!METHODS.includes(name) || name === "CONNECT") {
    throw usage(`--method takes a method such as PUT, not ${JSON.stringify(method)}`);
  }
  if (needsPost && name !== "POST") throw usage(`--async and --webhook only work with POST, not ${name}`);
  return name;
}

function ownQuery({ async: isAsync, webhook }: CallFlags): string[] {
  return [
    ...(isAsync ? ["async=true"] : []),
    ...(webhook === undefined ? [] : [`webhookEndpoint=${encodeURIComponent(webhook)}`]),
  ];
}
