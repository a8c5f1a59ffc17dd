import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { BulkAction } from "../../model/bulk-job.ts";
import { RUN_STATES } from "../../model/run.ts";
import { BULK_COUNT, BULK_JOBS, type BulkJobRecord, ONE_BULK_JOB } from "../../shapes/bulk-jobs.ts";
import { CliFailure, usage } from "../failure.ts";
import { paintStatus, relative } from "../output.ts";
import { confirm, withProgress } from "../terminal.ts";
import type { Api } from "./api.ts";
import { oneOf, pastTime, YES_OPTION } from "./task.ts";
import type { RemoteFlags, Switches, Task, Texts } from "./task.ts";

/** Conditions that choose runs of an app. */
export type BulkFlags = RemoteFlags &
  Texts<"status" | "tag" | "function" | "from" | "to"> &
  Switches<"async" | "sync" | "all" | "yes">;

const LOOK_MS = 500;

/** What is said of each action. */
const WORDS: Readonly<Record<BulkAction, { readonly asks: string; readonly did: string }>> = {
  retry: { asks: "Run again", did: "running again" },
  cancel: { asks: "Cancel", did: "cancelled" },
  delete: { asks: "Delete", did: "deleted" },
};

/** Adds the options that choose runs. */
export function choosing(command: Command): Command {
  return command
    .option("--status <status>", `only those: ${RUN_STATES.join(", ")}`, oneOf("--status", RUN_STATES))
    .option("--tag <tag>", "only runs with that tag")
    .option("--function <name>", "only runs of that function")
    .option(
      "--from <time>",
      "only runs since then: a duration ago such as 2h, or an RFC 3339 time",
      pastTime("--from"),
    )
    .option("--to <time>", "only runs before then", pastTime("--to"))
    .option("--async", "only async runs")
    .option("--sync", "only sync runs and streams")
    .option("--all", "every run that it fits, where no other condition is given")
    .option(...YES_OPTION);
}

/** Whether the flags choose runs. */
export function hasChoice(flags: BulkFlags): boolean {
  return flags.all === true || Object.keys(filterOf(flags)).length > 0;
}

/** Does the action to all runs that the flags choose, and waits for the end. */
export async function actOnMany(task: Task<BulkFlags>, action: BulkAction, app: string): Promise<void> {
  const { api, flags, out, signal } = task;
  const conditions = filterOf(flags);
  const isAll = flags.all === true;
  if (isAll === Object.keys(conditions).length > 0) {
    const hint = `millrace runs ${action} ${app} --tag nightly`;
    throw usage(isAll ? "--all stands alone" : "say which runs, or --all", hint);
  }
  const body = { action, filter: isAll ? { all: true } : conditions };
  const path = await api.appPath(app, "/runs/bulk");
  const about = { about: { app } };
  const { count, exact } = await api.ask(BULK_COUNT, "POST", `${path}/count`, { ...about, body });
  const shown = exact ? String(count) : `${count} or more`;
  if (count > 0 || !exact) {
    const question = `${WORDS[action].asks} ${shown} ${count === 1 ? "run" : "runs"} of ${app}?`;
    await confirm(question, flags, signal);
  }
  const { item } = await api.ask(ONE_BULK_JOB, "POST", path, { ...about, body });
  const job = await withProgress(progressText(item), out.isJson, async (progress) => {
    let last = item;
    while (last.status === "running") {
      await sleep(LOOK_MS, undefined, { signal });
      last = await readJob(api, path, item.id);
      progress.set(progressText(last));
    }
    return last;
  });
  if (job.status !== "done")
    throw new CliFailure(job.error ?? `the action was ${job.status}: ${summary(job)}`);
  out.show(job, () => `${summary(job)}\n`);
}

/** Lists the last actions on many runs of an app, or stops one. */
export async function jobsOf(task: Task<RemoteFlags & Texts<"stop">>, app: string): Promise<void> {
  const { api, flags, out } = task;
  const path = await api.appPath(app, "/runs/bulk");
  const about = { about: { app } };
  if (flags.stop !== undefined) {
    const url = `${path}/${encodeURIComponent(flags.stop)}/cancel`;
    const { item } = await api.ask(ONE_BULK_JOB, "POST", url, about);
    out.show(item, () => `${summary(item)}\n`);
    return;
  }
  const { items } = await api.get(BULK_JOBS, path, about);
  out.list(items, {
    JOB: ({ id }) => id,
    ACTION: ({ action }) => action,
    STATUS: ({ status }) => paintStatus(status),
    DONE: ({ done, total }) => (total === null ? String(done) : `${done} of ${total}`),
    SKIPPED: ({ skipped }) => String(skipped),
    CREATED: ({ createdAt }) => relative(createdAt),
  });
}

async function readJob(api: Api, path: string, id: string): Promise<BulkJobRecord> {
  return (await api.get(ONE_BULK_JOB, `${path}/${id}`)).item;
}

function filterOf({ status, tag, function: functionName, from, to, async: isAsync, sync }: BulkFlags) {
  for (const [name, value] of Object.entries({ tag, function: functionName }))
    // A variable that is not set must not choose every run.
    if (value === "") throw usage(`--${name} is empty`);
  if (isAsync && sync) throw usage("--async and --sync exclude each other");
  const given = {
    status,
    tag,
    functionName,
    from,
    to,
    mode: isAsync ? "async" : sync ? "sync" : undefined,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function progressText({ action, done, skipped, total }: BulkJobRecord): string {
  return `${done + skipped}${total === null ? "" : ` of ${total}`} ${WORDS[action].did}`;
}

function summary({ action, done, skipped, skippedBy }: BulkJobRecord): string {
  const runs = `${done} ${done === 1 ? "run is" : "runs are"} ${WORDS[action].did}`;
  const reasons = Object.entries(skippedBy).map(
    ([reason, count]) => `${count} ${reason.replaceAll("_", " ")}`,
  );
  return skipped === 0 ? `${runs}.` : `${runs}, ${skipped} left as they are: ${reasons.join(", ")}.`;
}
