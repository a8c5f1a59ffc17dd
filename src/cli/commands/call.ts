import type { Command } from "commander";
import type { Answer } from "../api/http.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { Progress } from "../output/progress.ts";
import { withService } from "../task.ts";
import type { Task } from "../task.ts";
import { readArguments, readWords } from "./call-arguments.ts";
import { accepted } from "./call-async.ts";
import { readHeaders } from "./call-headers.ts";
import type { CallFlags } from "./call-flags.ts";
import { callPath } from "./call-path.ts";
import { printAnswer } from "./print-answer.ts";

/** Options that mean something for the path of a server alone. */
const OF_PATHS = ["method", "ws", "linger"] as const;

/** `millrace call APP [FUNCTION|/PATH] [key=value…]` */
export function defineCall(command: Command): void {
  remote(command)
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
    )
    .option("--async", "print the run's id without waiting")
    .option("--wait", "with --async: wait for the result")
    .option("--stream", "ask for the answer as a stream")
    .option("--webhook <url>", "forward the answer to this address")
    .option("--key <text>", "Idempotency-Key: repeating the call with the same key does not run it again");
  examples(
    command,
    "millrace call hello name=Ada",
    "millrace call chat complete --data @prompt.json",
    "millrace call report --async --wait year=2026",
    "millrace call openai /v1/models",
    "millrace call rooms /kitchen --ws",
  ).action(withService(call));
}

async function call(task: Task<CallFlags>, app: string, words: readonly string[]): Promise<void> {
  const { flags } = task;
  if (flags.wait && !flags.async) throw usage("--wait only works with --async; other calls always wait");
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
  const progress = new Progress(`${app}/${functionName}`, out.isJson);
  let answer: Answer | null;
  try {
    answer = await api.open("POST", await api.appUrl(app, functionName), {
      body,
      query: { async: flags.async && true, webhookEndpoint: flags.webhook },
      // Ctrl-C ends what it started: the service cancels the run of a caller who goes.
      headers: { "x-disconnect": "cancel", ...readHeaders(flags) },
    });
    if (flags.async) answer = await accepted(task, app, answer, progress);
  } finally {
    progress.end();
  }
  if (answer) await printAnswer({ api, out, app, functionName }, answer);
}

function collect(line: string, before: readonly string[] = []): string[] {
  return [...before, line];
}
