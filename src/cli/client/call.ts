import { METHODS } from "../../kit/node-http.ts";
import { ACCEPTED_RUN } from "../../shapes/runs.ts";
import { usage } from "../failure.ts";
import { collect, type Definitions } from "../options.ts";
import { type Progress, withProgress } from "../terminal.ts";
import type { Api } from "./api.ts";
import { queueQuery, readArguments, readBody, readHeaders, readPair, readWords } from "./call-arguments.ts";
import type { CallFlags } from "./call-arguments.ts";
import { explain, readJson } from "./explain.ts";
import { type Answer, textOf } from "./http.ts";
import { printAnswer, printResponse } from "./print-answer.ts";
import { asks, count, seconds, type Task } from "./task.ts";

/** Options that are for the path of a server only. */
const OF_PATHS = ["method", "ws", "linger"] as const;

/** A timer takes no more than 24 days. */
const MAX_LINGER_SECONDS = 86_400;

export const COMMANDS: Definitions = {
  call(command) {
    asks(
      command,
      call,
      "millrace call hello name=Ada",
      "millrace call chat complete --data @prompt.json",
      "millrace call report --async --wait year=2026",
      "millrace call openai /v1/models",
      "millrace call rooms /kitchen --ws",
    )
      .argument("<app>", "the app's name")
      .argument(
        "[words...]",
        "the function's name (default: run) or a /path of a server, then key=value arguments",
      )
      .option("--data <text>", "arguments as a JSON object, or the body for a /path; @file, or - for stdin")
      .option("-H, --header <line>", "add a header, such as 'Accept: text/plain'; can be repeated", collect)
      .option("--method <name>", "with a /path: the method (default: GET, or POST with a body)")
      .option("--ws", "with a /path: open a WebSocket; send stdin line by line, print what arrives")
      .option(
        "--linger <duration>",
        "with --ws: after stdin ends, close once nothing has arrived for this long (default: 1s)",
        seconds("--linger", MAX_LINGER_SECONDS),
      )
      .option("--async", "print the run's id without waiting")
      .option("--wait", "with --async: wait for the result")
      .option("--priority <word>", "with --async: low, normal, high, or seconds of head start")
      .option(
        "--delay <duration>",
        "with --async: begin later; a duration, or a time such as 2027-01-31T08:00:00Z",
      )
      .option("--ttl <duration>", "with --async: give up if the run has not begun within this time")
      .option("--timeout <duration>", "with --async: give up if the run has not ended within this time")
      .option(
        "--max-attempts <number>",
        "with --async: how often the run may begin",
        count("--max-attempts", 1, 100),
      )
      .option(
        "--concurrency-key <text>",
        "with --async: runs with the same key share what the app's [queue] allows for one key",
      )
      .option("--tag <text>", "with --async: a label to find the run by; can be repeated", collect)
      .option("--stream", "ask for the answer as a stream")
      .option("--webhook <url>", "forward the answer to this address")
      .option("--fairness-key <text>", "wait in the line of this name, instead of that of your account")
      .option("--key <text>", "Idempotency-Key: repeating the call with the same key does not run it again");
  },
};

async function call(task: Task<CallFlags>, app: string, words: readonly string[]): Promise<void> {
  const { flags } = task;
  if (flags.wait && !flags.async) throw usage("--wait only works with --async; other calls always wait");
  const [asked] = queueQuery(flags);
  if (asked && !flags.async) throw usage(`--${asked[0].replace("_", "-")} only works with --async`);
  if (flags.linger !== undefined && !flags.ws) throw usage("--linger only works with --ws");
  const [path, ...rest] = words;
  if (!path?.startsWith("/")) await callFunction(task, app, words);
  else if (flags.ws) {
    // Loaded only here: the package for WebSockets would slow down every call.
    const { callSocket } = await import("./call-socket.ts");
    await callSocket(task, app, path, rest);
  } else await callPath(task, app, path, rest);
}

async function callFunction(task: Task<CallFlags>, app: string, words: readonly string[]): Promise<void> {
  const { api, flags, out } = task;
  const misplaced = OF_PATHS.find((name) => flags[name] !== undefined);
  if (misplaced) {
    const rest = words.map((word) => ` ${word}`).join("");
    throw usage(
      `--${misplaced} is for a path of a server, and a path begins with /`,
      `millrace call ${app} /PATH${rest} --${misplaced}${flags[misplaced] === true ? "" : ` ${flags[misplaced]}`}`,
    );
  }
  const { functionName, pairs } = readWords(words);
  const body = await readArguments(flags.data, pairs);
  const answer = await withProgress(`${app}/${functionName}`, out.isJson, async (progress) => {
    const url = new URL(await api.appUrl(app, functionName));
    for (const [name, value] of queueQuery(flags)) url.searchParams.append(name, value);
    const given = await api.open("POST", url.href, {
      body,
      query: { async: flags.async && true, webhookEndpoint: flags.webhook },
      // For Ctrl-C: the service cancels the run when its caller disconnects.
      headers: { "x-disconnect": "cancel", ...readHeaders(flags) },
    });
    return flags.async ? await accepted(task, app, given, progress) : given;
  });
  if (answer) await printAnswer({ api, out, app, answer }, functionName);
}

async function callPath(
  task: Task<CallFlags>,
  app: string,
  path: string,
  words: readonly string[],
): Promise<void> {
  const { api, flags, out } = task;
  const body = await bodyOf(flags, words);
  const method = methodOf(flags, body !== undefined);
  const url = await api.pathUrl(app, path);
  // Added to the text: read and written again, the query might not be what was typed.
  url.search = [url.search.slice(1), ...ownQuery(flags)].filter(Boolean).join("&");
  const answer = await withProgress(`${method} ${app} ${path}`, out.isJson, async (progress) => {
    const given = await api.open(method, url.href, { body, headers: readHeaders(flags) });
    return flags.async ? await accepted(task, app, given, progress) : given;
  });
  if (answer) await printResponse({ api, out, app, answer }, path);
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

function ownQuery(flags: CallFlags): string[] {
  const { async: isAsync, webhook } = flags;
  return [
    ...(isAsync ? ["async=true"] : []),
    ...queueQuery(flags).map(([name, value]) => `millrace_${name}=${encodeURIComponent(value)}`),
    ...(webhook === undefined ? [] : [`webhookEndpoint=${encodeURIComponent(webhook)}`]),
  ];
}

const WAIT_SECONDS = 60;

/** Prints the id of a run that was accepted, or with `--wait` gives its answer; null where there is no more to print. */
async function accepted(
  { api, flags, out }: Task<CallFlags>,
  app: string,
  answer: Answer,
  progress: Progress,
): Promise<Answer | null> {
  const text = await textOf(answer);
  if (answer.status !== 202) throw explain(answer.status, text, api.site, { app });
  const { run_id: runId } = readJson(ACCEPTED_RUN, text, api.site.baseUrl);
  if (flags.wait) return await waitFor(api, app, runId, progress);
  progress.end();
  out.show({ run_id: runId }, () => `${runId}\n`);
  out.note(`millrace runs get ${app} ${runId}`);
  return null;
}

/** The answer of an async run when there is one; interrupted, the run is cancelled. */
async function waitFor(api: Api, app: string, runId: string, progress: Progress): Promise<Answer> {
  progress.set(`waiting for run ${runId}`);
  try {
    for (;;) {
      const url = await api.appUrl(app, `runs/${runId}/result`);
      const answer = await api.open("GET", url, { headers: { prefer: `wait=${WAIT_SECONDS}` } });
      // An app may answer 202 itself; only the service adds Retry-After.
      if (answer.status !== 202 || answer.headers["retry-after"] === undefined) return answer;
      answer.body.resume();
    }
  } catch (error) {
    if (api.signal.aborted) await cancelRun(api, app, runId);
    throw error;
  }
}

/** Cancels a run that the command started; no harm if it has just ended. */
async function cancelRun(api: Api, app: string, runId: string): Promise<void> {
  const url = await api.appUrl(app, `runs/${runId}/cancel`);
  const answer = await api.open("POST", url, { isParting: true });
  answer.body.resume();
  process.stderr.write(`cancelled run ${runId}\n`);
}
