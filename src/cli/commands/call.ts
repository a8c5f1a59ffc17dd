import type { Command } from "commander";
import { ACCEPTED_RUN } from "../../shapes/runs.ts";
import type { Api } from "../api/api.ts";
import { explain } from "../api/explain.ts";
import { textOf } from "../api/http.ts";
import type { Answer } from "../api/http.ts";
import { readJson } from "../api/read-json.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { Progress } from "../output/progress.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";
import { readArguments, readWords } from "./call-arguments.ts";
import { printAnswer } from "./print-answer.ts";

type CallFlags = RemoteFlags & {
  readonly data?: string;
  readonly async?: boolean;
  readonly wait?: boolean;
  readonly stream?: boolean;
  readonly webhook?: string;
  readonly key?: string;
};

/** How long the service is asked to hold one question for a result; then it is asked again. */
const WAIT_SECONDS = 60;

/** `millrace call APP [FUNCTION] [key=value…]` */
export function defineCall(command: Command): void {
  remote(command)
    .argument("<app>", "the app's name")
    .argument("[words...]", "the function's name (default: run), then key=value arguments")
    .option("--data <json>", "arguments as a JSON object, @file, or - for stdin")
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
  ).action(withService(call));
}

async function call(task: Task<CallFlags>, app: string, words: readonly string[]): Promise<void> {
  const { api, flags, out } = task;
  if (flags.wait && !flags.async) throw usage("--wait only works with --async; other calls always wait");
  const { functionName, pairs } = readWords(words);
  const body = await readArguments(flags.data, pairs);
  const progress = new Progress(`${app}/${functionName}`, out.isJson);
  let answer: Answer;
  try {
    answer = await api.open("POST", await api.appUrl(app, functionName), {
      body,
      query: { async: flags.async && true, webhookEndpoint: flags.webhook },
      headers: {
        // Ctrl-C ends what it started: the service cancels the run of a caller who goes.
        "x-disconnect": "cancel",
        ...(flags.stream && { accept: "text/event-stream" }),
        ...(flags.key !== undefined && { "idempotency-key": flags.key }),
      },
    });
    if (flags.async) answer = await accepted(task, app, answer, progress);
  } finally {
    progress.end();
  }
  if (flags.async && !flags.wait) return;
  await printAnswer({ api, out, app }, answer);
}

/** Prints the id of a run that was accepted, or waits for its result. */
async function accepted(
  { api, flags, out }: Task<CallFlags>,
  app: string,
  answer: Answer,
  progress: Progress,
): Promise<Answer> {
  const text = await textOf(answer);
  if (answer.status !== 202) throw explain(answer, text, api.site, { app });
  const { run_id: runId } = readJson(ACCEPTED_RUN, text, api.site.baseUrl);
  if (flags.wait) return await waitFor(api, app, runId, progress);
  progress.end();
  out.show({ run_id: runId }, () => `${runId}\n`);
  out.note(`millrace runs get ${app} ${runId}`);
  return answer;
}

/** The answer of an async run when there is one; interrupted, the run is cancelled. */
async function waitFor(api: Api, app: string, runId: string, progress: Progress): Promise<Answer> {
  progress.set(`waiting for run ${runId}`);
  try {
    for (;;) {
      const url = await api.appUrl(app, `runs/${runId}/result`);
      const answer = await api.open("GET", url, { headers: { prefer: `wait=${WAIT_SECONDS}` } });
      if (answer.status !== 202) return answer;
      answer.body.resume();
    }
  } catch (error) {
    if (api.signal.aborted) await cancelRun(api, app, runId);
    throw error;
  }
}

/** Ends a run that the command started; one that has just ended needs no more. */
async function cancelRun(api: Api, app: string, runId: string): Promise<void> {
  const url = await api.appUrl(app, `runs/${runId}/cancel`);
  const answer = await api.open("POST", url, { isParting: true });
  answer.body.resume();
  process.stderr.write(`cancelled run ${runId}\n`);
}
