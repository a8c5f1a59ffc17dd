import { setTimeout as sleep } from "node:timers/promises";
import { indentedJson } from "../../model/json-layout.ts";
import { RUN_STATES } from "../../model/run.ts";
import { ACCEPTED_RUN, RUN, type RunRecord, RUNS } from "../../shapes/runs.ts";
import { CliFailure, usage } from "../failure.ts";
import type { Definitions } from "../options.ts";
import { answerText, duration, fields, paintStatus, printable, relative } from "../output.ts";
import { type Api, firstOf } from "./api.ts";
import { errorOf, explain, readJson } from "./explain.ts";
import { readMessages, textOf } from "./http.ts";
import { asking, count, LIMIT_OPTION, oneOf } from "./task.ts";
import type { RemoteFlags, Switches, Task, Texts } from "./task.ts";

type ListFlags = RemoteFlags & Texts<"status" | "tag"> & Switches<"async"> & { readonly limit: number };

/** Requests in progress at a time. */
const CANCELLED_AT_ONCE = 16;

const EMPTY_TAG = "--tag is empty";

const RESULT = ',"result":';

export const COMMANDS: Definitions = {
  runs(command) {
    const sample = "019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa";
    asking(command, "list", "list runs, newest first", listRuns, "", "hello --status failure")
      .argument("[app]", "the app's name (default: all apps of the project)")
      .option(...LIMIT_OPTION)
      .option("--status <status>", `only those: ${RUN_STATES.join(", ")}`, oneOf("--status", RUN_STATES))
      .option("--async", "only async runs")
      .option("--tag <tag>", "only runs with that tag (of one app)");
    const showing = "show a run, and its result once it has ended";
    asking(command, "get <app> <run>", showing, getRun, `hello ${sample}`);
    const tailing = "print what a run yields, from the beginning to the end";
    asking(command, "tail <app> <run>", tailing, tailRun, `counter ${sample}`).option(
      "--after <number>",
      "skip this many messages",
      count("--after", 0, 999_999_999_999_999),
      0,
    );
    const cancelling = "cancel a queued or running run, or all with a tag";
    asking(
      command,
      "cancel <app> [run]",
      cancelling,
      cancelRuns,
      `hello ${sample}`,
      "hello --tag nightly",
    ).option("--tag <tag>", "cancel every run that has this tag and has not ended");
  },
};

async function listRuns({ api, flags, out }: Task<ListFlags>, app?: string): Promise<void> {
  const { async: asyncOnly, status, limit, tag } = flags;
  if (tag !== undefined && app === undefined) throw usage("--tag needs the name of an app");
  if (tag === "") throw usage(EMPTY_TAG);
  const path = await (app === undefined ? api.path("runs") : api.appPath(app, "/runs"));
  const asked = { query: { status, asyncOnly, tag }, about: { app } };
  out.list(await firstOf(api, RUNS, path, limit, asked), {
    RUN: ({ id }) => id,
    ...(app === undefined && {
      APP: ({ modelId, projectId }: RunRecord) => modelId.slice(projectId.length + 1),
    }),
    CALLED: (run) => calledText(run),
    STATUS: ({ status }) => paintStatus(status),
    CODE: ({ statusCode }) => String(statusCode ?? "–"),
    TOOK: ({ runtimeMs }) => duration(runtimeMs),
    CREATED: ({ createdAt }) => relative(createdAt),
    ERROR: ({ error }) => printable(error?.message.split("\n")[0] ?? ""),
  });
}

async function getRun({ api, out }: Task, app: string, id: string): Promise<void> {
  const answer = await api.open("GET", await api.appUrl(app, `runs/${encodeURIComponent(id)}`));
  const text = await textOf(answer);
  if (answer.status !== 200) throw explain(answer.status, text, api.site, { app });
  if (out.isJson) {
    process.stdout.write(`${text}\n`);
    return;
  }
  process.stdout.write(describe(readJson(RUN, text, api.site.baseUrl)));
  // Cut out of the text: read and written again, long numbers would lose digits.
  const index = text.indexOf(RESULT);
  if (index !== -1)
    process.stdout.write(`\n${answerText(indentedJson(text.slice(index + RESULT.length, -1)))}\n`);
}

function describe(run: RunRecord): string {
  const { error, statusCode, webhookEndpoint, webhookStatus } = run;
  return fields([
    ["run", run.id],
    ["called", calledText(run)],
    ["status", `${paintStatus(run.status)}${statusCode === null ? "" : `  ${statusCode}`}`],
    error && ["error", printable(`${error.code}: ${error.message}`)],
    ["created", `${relative(run.createdAt)}  ${run.createdAt}`],
    ["waited", duration(run.queueTimeMs)],
    ["took", duration(run.runtimeMs)],
    ["container", run.containerId ?? "–"],
    run.batchSize === undefined ? null : ["batch", batchText(run)],
    run.schedule === undefined ? null : ["schedule", printable(`${run.schedule.name}  ${run.schedule.time}`)],
    run.dueAt === undefined ? null : ["begins", `${relative(run.dueAt)}  ${run.dueAt}`],
    run.position === undefined ? null : ["position", String(run.position)],
    run.tags === undefined ? null : ["tags", run.tags.map(printable).join(", ")],
    run.priority === undefined ? null : ["priority", `${run.priority} s of head start`],
    run.endBy === undefined ? null : ["ends by", `${relative(run.endBy)}  ${run.endBy}`],
    run.progress === undefined ? null : ["progress", progressText(run.progress)],
    run.traceId === undefined ? null : ["trace", run.traceId],
    run.checkpoint === undefined ? null : ["checkpoint", checkpointText(run.checkpoint)],
    ...(run.attempts ?? []).map((attempt) => [`attempt ${attempt.number}`, attemptText(attempt)] as const),
    webhookEndpoint === null
      ? null
      : ["webhook", `${paintStatus(webhookStatus)}  ${printable(webhookEndpoint)}`],
  ]);
}

function attemptText({ startedAt, error }: NonNullable<RunRecord["attempts"]>[number]): string {
  const what = error === null ? "" : `  ${error.code}: ${error.message}`;
  return printable(`${startedAt ?? "–"}${what}`);
}

function progressText({ fraction, message, at }: NonNullable<RunRecord["progress"]>): string {
  const share = fraction === null ? "" : `${Math.floor(fraction * 100)} %  `;
  return printable(`${share}${message ?? ""}${message === null ? "" : "  "}${relative(at)}`);
}

function checkpointText({ at, sent, attempt }: NonNullable<RunRecord["checkpoint"]>): string {
  const chunks = sent === 0 ? "" : `  after ${sent === 1 ? "1 chunk" : `${sent} chunks`}`;
  return `${relative(at)}  ${at}  attempt ${attempt}${chunks}`;
}

function batchText({ batchSize: size, batchReason: reason }: RunRecord): string {
  const calls = size === 1 ? "1 call" : `${size} calls`;
  return reason === undefined ? calls : `${calls}  ${reason}`;
}

function calledText(run: RunRecord): string {
  return printable(`${calledName(run)}${run.async ? " (async)" : ""}`);
}

async function cancelRuns(task: Task<RemoteFlags & Texts<"tag">>, app: string, id?: string): Promise<void> {
  const { api, flags, out } = task;
  if ((id === undefined) === (flags.tag === undefined))
    throw usage("name the run to cancel, or with --tag the label of those to cancel");
  if (flags.tag === "") throw usage(EMPTY_TAG);
  if (id !== undefined) {
    const answer = await cancelRun(api, app, id);
    out.show(answer, () => `run ${id} is cancelled.\n`);
    return;
  }
  let cancelled = 0;
  // The ones that wait first, so that they do not begin meanwhile.
  for (const status of ["queued", "running"] as const) {
    const query = { tag: flags.tag, status };
    const runs = await firstOf(api, RUNS, await api.appPath(app, "/runs"), Infinity, {
      query,
      about: { app },
    });
    // A service of an earlier release ignores the parameter, and lists all runs.
    const tagged = runs.filter(({ tags }) => tags?.includes(flags.tag ?? ""));
    for (let at = 0; at < tagged.length; at += CANCELLED_AT_ONCE) {
      const some = tagged.slice(at, at + CANCELLED_AT_ONCE);
      const done = await Promise.all(some.map(async (run) => await hasCancelled(api, app, run.id)));
      cancelled += done.filter(Boolean).length;
    }
  }
  out.show({ cancelled }, () => `${cancelled} ${cancelled === 1 ? "run is" : "runs are"} cancelled.\n`);
}

/** False for a run that has ended meanwhile. */
async function hasCancelled(api: Api, app: string, id: string): Promise<boolean> {
  try {
    await cancelRun(api, app, id);
    return true;
  } catch (error) {
    if (error instanceof CliFailure && error.detail.code === "run_finished") return false;
    throw error;
  }
}

async function cancelRun(api: Api, app: string, id: string) {
  const url = await api.appUrl(app, `runs/${encodeURIComponent(id)}/cancel`);
  return await api.ask(ACCEPTED_RUN, "POST", url, { about: { app } });
}

const MAX_GAP_MS = 5_000;
const MAX_LOSSES = 20;

/** Prints everything that a run yields, live or later; a connection that is lost is resumed where it broke. */
async function tailRun(
  task: Task<RemoteFlags & { readonly after: number }>,
  app: string,
  id: string,
): Promise<void> {
  const { flags, out, signal } = task;
  const position = { after: String(flags.after) };
  for (let losses = 0; ; losses += 1) {
    const end = await readOn(task, app, id, position);
    if (end) {
      if (end.status !== "success") throw failed(end);
      out.note(`run ${id}: ${end.status}, ${duration(end.runtimeMs)}`);
      return;
    }
    if (losses === MAX_LOSSES) throw new CliFailure("the connection was lost too often");
    await sleep(Math.min(100 * 2 ** losses, MAX_GAP_MS), undefined, { signal });
  }
}

/** Prints from a position on; gives the run's record at its end, null when the connection was lost before. */
async function readOn(
  { api, out }: Task,
  app: string,
  id: string,
  position: { after: string },
): Promise<RunRecord | null> {
  const url = await api.appUrl(app, `runs/${encodeURIComponent(id)}/events`);
  const answer = await api.open("GET", url, { headers: { "last-event-id": position.after } });
  // Everything was read before: only the record is missing.
  if (answer.status === 204) return await api.get(RUN, await api.appUrl(app, `runs/${id}`));
  if (answer.status !== 200) throw explain(answer.status, await textOf(answer), api.site, { app });
  try {
    for await (const { id: number, event, data } of readMessages(answer.body)) {
      if (event === "end") return readJson(RUN, data, api.site.baseUrl);
      // The service gives up on this answer; the next one says why, if the reason lasts.
      if (event === "error" && errorOf(data).request_id === answer.headers["x-request-id"]) return null;
      if (event === "progress" && number === null) continue;
      if (event === "truncated") out.warn("some of what the run yielded is not stored");
      else out.line({ id: Number(number), ...(event !== null && { event }), data }, answerText(data));
      position.after = number ?? position.after;
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (api.signal.aborted || !code.startsWith("ECONN")) throw error;
  }
  return null;
}

function failed({ id, status, error }: RunRecord): CliFailure {
  const message = error ? `${error.code}: ${error.message}` : `the run ended as ${status}`;
  return new CliFailure(message, { requestId: id, ...(error && { code: error.code }) });
}

/** What a run has called: a function by its name, a server by method and path. */
export function calledName(run: { readonly functionName: string; readonly method: string }): string {
  return run.functionName.startsWith("/") ? `${run.method} ${run.functionName}` : run.functionName;
}
