import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import { parseDuration } from "../../kit/duration.ts";
import { LOG_FRAME, LOG_PAGE } from "../../shapes/logs.ts";
import type { LogLineRecord } from "../../shapes/logs.ts";
import { readLimit } from "../api/pages.ts";
import { readFrames, requireRenewable } from "../api/tail-socket.ts";
import { CliFailure, usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { paint, printable } from "../output/paint.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";

type LogFlags = RemoteFlags & {
  readonly follow?: boolean;
  readonly since?: string;
  readonly run?: string;
  readonly container?: string;
  readonly search?: string;
  readonly limit: string;
};

const PAGE_LINES = 1_000;
const GAP_MS = 1_000;
const MAX_LOSSES = 60;

/** `millrace logs APP` */
export function defineLogs(command: Command): void {
  remote(command)
    .argument("<app>", "the app's name")
    .option("-f, --follow", "keep printing new lines")
    .option("--since <time>", "start at a time: a duration ago such as 10m, or an RFC 3339 time")
    .option("--run <id>", "only lines of this run")
    .option("--container <id>", "only lines of this replica")
    .option("--search <text>", "only lines that contain this text, ignoring case")
    .option("--limit <count>", "how many lines to show, counted from the end", "100");
  examples(command, "millrace logs hello --since 10m --search error", "millrace logs hello --follow").action(
    withService(logs),
  );
}

async function logs(task: Task<LogFlags>, app: string): Promise<void> {
  const { flags, out } = task;
  // All that is wrong is said before anything is asked.
  const [since, limit] = [
    flags.since === undefined ? undefined : readTime(flags.since),
    readLimit(flags.limit),
  ];
  const lines = await lastLines(task, app, since, limit);
  if (!flags.follow) {
    out.show(lines, () => lines.map((line) => `${format(line.timestamp, line.logLine)}\n`).join(""));
    if (lines.length === 0) out.note(`${app} printed nothing${since === undefined ? "" : " since then"}`);
    return;
  }
  for (const line of lines) out.line(line, format(line.timestamp, line.logLine));
  await follow(task, app, lines.at(-1)?.timestamp ?? since);
}

/** The last lines that fit, oldest first. */
async function lastLines(
  { api, flags }: Task<LogFlags>,
  app: string,
  since: string | undefined,
  limit: number,
): Promise<LogLineRecord[]> {
  const path = await api.appPath(app, "/logs");
  const { run: runId, container, search } = flags;
  const found: LogLineRecord[] = [];
  let nextToken: string | undefined;
  do {
    const pageSize = Math.min(limit - found.length, PAGE_LINES);
    const query = { pageSize, runId, container, search, afterDate: since, nextToken };
    const page = await api.get(LOG_PAGE, path, { query, about: { app } });
    found.push(...page.logs);
    nextToken = page.hasMore ? (page.nextPageToken ?? undefined) : undefined;
  } while (nextToken !== undefined && found.length < limit);
  return found.toReversed();
}

/** Goes on from a line; a connection that is lost is taken up again after the last one. */
async function follow(
  { api, flags, out, signal }: Task<LogFlags>,
  app: string,
  from: string | undefined,
): Promise<void> {
  const projectID = await api.project();
  const appID = `${projectID}-${await api.appName(app)}`;
  const wanted = flags.search?.toLowerCase();
  let after = from;
  for (let losses = 0; losses < MAX_LOSSES; losses += 1) {
    const query = { projectID, appID, runID: flags.run, containerID: flags.container, after };
    const end = await readFrames(api, LOG_FRAME, "/ws-logs", query, (frame) => {
      after = frame.timestamp;
      losses = 0;
      if (wanted !== undefined && !frame.log.toLowerCase().includes(wanted)) return;
      out.line(frame, format(frame.timestamp, frame.log));
    });
    requireRenewable(end);
    await sleep(GAP_MS, undefined, { signal });
  }
  throw new CliFailure("the connection to the log was lost too often");
}

function format(timestamp: string, text: string): string {
  return `${paint("dim", timestamp.slice(11, 23))}  ${printable(text)}`;
}

/** A duration ago, or a time; RFC 3339. */
function readTime(text: string): string {
  const seconds = parseDuration(text);
  if (seconds !== null) return new Date(Date.now() - seconds * 1000).toISOString();
  if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(Date.parse(text))) return new Date(text).toISOString();
  throw usage(`--since takes a duration such as 10m or an RFC 3339 time, not ${JSON.stringify(text)}`);
}
