import { CATCH_UPS, OVERLAPS } from "../../model/schedule.ts";
import { indentedJson } from "../../model/json-layout.ts";
import { FILE_RUN } from "../../shapes/runs.ts";
import { ONE_SCHEDULE, REMOVED_SCHEDULE, type ScheduleRecord, SCHEDULES } from "../../shapes/schedules.ts";
import type { Definitions } from "../options.ts";
import { fields, paintStatus, printable, relative } from "../output.ts";
import { firstOf } from "./api.ts";
import { readArguments } from "./call-arguments.ts";
import {
  asking,
  LIMIT_OPTION,
  oneOf,
  type RemoteFlags,
  type Switches,
  type Task,
  type Texts,
} from "./task.ts";

type ListFlags = RemoteFlags & { readonly limit: number };
type CreateFlags = RemoteFlags &
  Texts<"name" | "timezone" | "function" | "data" | "overlap" | "catchUp" | "jitter"> &
  Switches<"paused"> & { readonly cron: string };

const SCHEDULE_ARGUMENT = ["<schedule>", "the schedule's name"] as const;

export const COMMANDS: Definitions = {
  schedules(command) {
    asking(
      command,
      "list <app>",
      "list an app's schedules, or show one",
      listSchedules,
      "hello",
      "hello nightly",
    )
      .argument("[schedule]", "the schedule to show, with its next times and last runs")
      .option(...LIMIT_OPTION);
    asking(
      command,
      "create <app>",
      "create a schedule",
      createSchedule,
      `hello --cron "0 9 * * MON-FRI" --timezone Europe/Berlin --data '{"name":"Ada"}'`,
    )
      .requiredOption("--cron <expression>", "when it fires: 5 or 6 fields, such as '0 3 * * *'")
      .option("--name <name>", "its name (default: the function's name)")
      .option("--timezone <zone>", "the time zone of the expression (default: UTC)")
      .option("--function <name>", "the function it calls (default: run)")
      .option("--data <json>", "arguments as a JSON object; @file, or - for stdin")
      .option(
        "--overlap <word>",
        `while a run is unfinished: ${OVERLAPS.join(", ")}`,
        oneOf("--overlap", OVERLAPS),
      )
      .option("--catch-up <word>", `missed times: ${CATCH_UPS.join(", ")}`, oneOf("--catch-up", CATCH_UPS))
      .option("--jitter <duration>", "fire up to that much later")
      .option("--paused", "do not fire until it is resumed");
    const pausing = "stop a schedule from firing until it is resumed";
    asking(command, "pause <app>", pausing, pauseSchedule, "hello nightly").argument(...SCHEDULE_ARGUMENT);
    const resuming = "let a paused schedule fire again";
    asking(command, "resume <app>", resuming, resumeSchedule, "hello nightly").argument(...SCHEDULE_ARGUMENT);
    const running = "start a run of a schedule now";
    asking(command, "run <app>", running, runSchedule, "hello nightly").argument(...SCHEDULE_ARGUMENT);
    const deleting = "delete a schedule that is not part of the app's configuration";
    asking(command, "delete <app>", deleting, deleteSchedule, "hello run").argument(...SCHEDULE_ARGUMENT);
  },
};

async function listSchedules(task: Task<ListFlags>, app: string, name?: string): Promise<void> {
  const { api, flags, out } = task;
  if (name !== undefined) {
    const { item } = await api.get(ONE_SCHEDULE, await pathOf(task, app, name), { about: { app } });
    return out.show(item, () => describe(item));
  }
  const path = await api.appPath(app, "/schedules");
  out.list(await firstOf(api, SCHEDULES, path, flags.limit, { about: { app } }), {
    NAME: ({ name }) => name,
    CRON: ({ cron, timezone }) => printable(`${cron}  ${timezone}`),
    FUNCTION: (schedule) => schedule.function,
    NEXT: ({ paused, nextTimes }) => (paused ? "paused" : relative(nextTimes[0] ?? null)),
    LAST: ({ lastRuns }) => lastText(lastRuns[0]),
    SOURCE: ({ source }) => source,
  });
}

function describe(schedule: ScheduleRecord): string {
  const { cron, timezone, input, overlap, catchUp, jitterSeconds, paused, nextTimes, lastRuns } = schedule;
  return fields([
    ["schedule", schedule.name],
    ["cron", printable(`${cron}  ${timezone}`)],
    ["calls", schedule.function],
    ["input", printable(indentedJson(JSON.stringify(input)))],
    ["overlap", overlap],
    ["catch up", catchUp],
    ["jitter", `${jitterSeconds} s`],
    ["part of", schedule.source === "app" ? "the app's configuration" : "none: it was made by the API"],
    ["next", paused ? "paused" : (nextTimes[0] ?? "never")],
    ...nextTimes.slice(1).map((time) => ["", time] as const),
    ...lastRuns.map(
      (run, i) => [i === 0 ? "last" : "", `${run.time}  ${lastText(run)}  ${run.runId ?? ""}`] as const,
    ),
  ]);
}

function lastText(run: ScheduleRecord["lastRuns"][number] | undefined): string {
  if (!run) return "–";
  return paintStatus(run.runStatus ?? run.status);
}

async function createSchedule(task: Task<CreateFlags>, app: string): Promise<void> {
  const { api, flags, out } = task;
  const { cron, name, timezone, data, overlap, catchUp, jitter, paused } = flags;
  const body = {
    cron,
    name,
    timezone,
    function: flags.function,
    overlap,
    catchUp,
    jitter,
    paused,
    ...(data !== undefined && { input: JSON.parse(await readArguments(data, [])) as unknown }),
  };
  const path = await api.appPath(app, "/schedules");
  const { item } = await api.ask(ONE_SCHEDULE, "POST", path, { body, about: { app } });
  const next = item.nextTimes[0];
  const when = item.paused ? "It is paused." : next === undefined ? "No date fits it." : `Next: ${next}`;
  out.show(item, () => `Created ${item.name}. ${when}\n`);
}

async function pauseSchedule(task: Task, app: string, name: string): Promise<void> {
  await setPaused(task, app, name, true);
}

async function resumeSchedule(task: Task, app: string, name: string): Promise<void> {
  await setPaused(task, app, name, false);
}

async function setPaused(task: Task, app: string, name: string, paused: boolean): Promise<void> {
  const path = await pathOf(task, app, name);
  const { item } = await task.api.ask(ONE_SCHEDULE, "PATCH", path, { body: { paused }, about: { app } });
  const said = paused ? `${name} is paused.` : `${name} is resumed. Next: ${item.nextTimes[0] ?? "never"}`;
  task.out.show(item, () => `${said}\n`);
}

async function runSchedule(task: Task, app: string, name: string): Promise<void> {
  const path = `${await pathOf(task, app, name)}/run`;
  const answer = await task.api.ask(FILE_RUN, "POST", path, { about: { app } });
  task.out.show(answer, () => `${answer.runId}\n`);
}

async function deleteSchedule(task: Task, app: string, name: string): Promise<void> {
  const answer = await task.api.ask(REMOVED_SCHEDULE, "DELETE", await pathOf(task, app, name), {
    about: { app },
  });
  task.out.show(answer, () => `Deleted ${name}.\n`);
}

async function pathOf({ api }: Task, app: string, name: string): Promise<string> {
  return await api.appPath(app, `/schedules/${encodeURIComponent(name)}`);
}
