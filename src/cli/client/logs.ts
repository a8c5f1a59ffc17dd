import { LOG_FRAME, LOG_PAGE, type LogLineRecord } from "../../shapes/logs.ts";
import { CliFailure } from "../failure.ts";
import type { Definitions } from "../options.ts";
import { paint, printable } from "../output.ts";
import type { Api } from "./api.ts";
import { asks, count, pastTime, type RemoteFlags, type Switches, type Task, type Texts } from "./task.ts";

type LogFlags = RemoteFlags &
  Switches<"follow"> &
  Texts<"since" | "run" | "container" | "search"> & { readonly limit: number };

type Query = Readonly<Record<string, string | undefined>>;

const PAGE_LINES = 1_000;
const limit = count("--limit", 1, 9_999_999);

export const COMMANDS: Definitions = {
  logs(command) {
    asks(command, logs, "millrace logs hello --since 10m --search error", "millrace logs hello --follow")
      .argument("<app>", "the app's name")
      .option("-f, --follow", "keep printing new lines")
      .option(
        "--since <time>",
        "start at a time: a duration ago such as 10m, or an RFC 3339 time",
        pastTime("--since"),
      )
      .option("--run <id>", "only lines of this run")
      .option("--container <id>", "only lines of this replica")
      .option("--search <text>", "only lines that contain this text, ignoring case")
      .option("--limit <count>", "how many lines to show, counted from the end", limit, 100);
  },
};

async function logs(task: Task<LogFlags>, app: string): Promise<void> {
  const { api, flags, out } = task;
  const { since, limit, run: runId, container, search } = flags;
  const lines = await lastLines(api, app, { runId, container, search, afterDate: since }, limit);
  if (!flags.follow) {
    out.show(lines, () => lines.map((line) => `${format(line.timestamp, line.logLine)}\n`).join(""));
    if (lines.length === 0) out.note(`${app} printed nothing${since === undefined ? "" : " since then"}`);
    return;
  }
  for (const line of lines) out.line(line, format(line.timestamp, line.logLine));
  await follow(task, app, lines.at(-1)?.timestamp ?? since);
}

/** The last lines that a query finds, oldest first; all of them without a limit. */
export async function lastLines(
  api: Api,
  app: string,
  query: Query,
  limit = Infinity,
): Promise<LogLineRecord[]> {
  const path = await api.appPath(app, "/logs");
  const found: LogLineRecord[] = [];
  let nextToken: string | undefined;
  do {
    const pageSize = Math.min(limit - found.length, PAGE_LINES);
    const page = await api.get(LOG_PAGE, path, { query: { ...query, pageSize, nextToken }, about: { app } });
    found.push(...page.logs);
    nextToken = page.hasMore ? (page.nextPageToken ?? undefined) : undefined;
  } while (nextToken !== undefined && found.length < limit);
  return found.toReversed();
}

/** Prints lines as they come; a connection that is lost is resumed after the last one. */
async function follow(
  { api, flags, out }: Task<LogFlags>,
  app: string,
  from: string | undefined,
): Promise<void> {
  const projectID = await api.project();
  const appID = `${projectID}-${await api.appName(app)}`;
  const wanted = flags.search?.toLowerCase();
  let after = from;
  const source = {
    shape: LOG_FRAME,
    path: "/ws-logs",
    query: () => ({ projectID, appID, runID: flags.run, containerID: flags.container, after }),
    isOver: () => false,
  };
  // Loaded only here: the package for WebSockets would slow down the command.
  const { followFrames } = await import("./tail-socket.ts");
  await followFrames(api, source, (frame) => {
    after = frame.timestamp;
    if (wanted !== undefined && !frame.log.toLowerCase().includes(wanted)) return;
    out.line(frame, format(frame.timestamp, frame.log));
  });
  throw new CliFailure("the connection to the log was lost too often");
}

function format(timestamp: string, text: string): string {
  return `${paint("dim", timestamp.slice(11, 23))}  ${printable(text)}`;
}
