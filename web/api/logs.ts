import { LOG_STREAMS } from "../../src/model/log-line.ts";
import type { LogStream } from "../../src/model/log-line.ts";
import { LOG_PAGE } from "../../src/shapes/logs.ts";
import { idOf } from "./apps.ts";
import { ask } from "./http.ts";

/** One line that an app printed. Its timestamp has nine digits of a second, and no other line has it. */
export type LogLine = {
  readonly timestamp: string;
  readonly runId: string | null;
  readonly replica: string;
  readonly stream: LogStream;
  readonly text: string;
};

/** Which lines are wanted. */
export type LogFilter = {
  readonly search?: string;
  readonly stream?: LogStream;
  readonly runId?: string;
  readonly replica?: string;
};

export type LogSearch = LogFilter & { readonly wrap?: boolean };

/** The filter that an address names, and whether long lines are broken. */
export function readLogSearch(search: Record<string, unknown>): LogSearch {
  const { search: text = "", runId, replica, wrap } = search;
  const stream = LOG_STREAMS.find((name) => name === search["stream"]);
  return {
    // The address may hold a number where a text was typed.
    ...((typeof text === "number" || (typeof text === "string" && text !== "")) && { search: String(text) }),
    ...(stream && { stream }),
    ...(typeof runId === "string" && runId !== "" && { runId }),
    ...(typeof replica === "string" && replica !== "" && { replica }),
    ...(wrap === false && { wrap }),
  };
}

/** Lines, oldest first, and where to go on looking for older ones; null at the beginning of the log. */
export type LogPage = { readonly lines: readonly LogLine[]; readonly olderToken: string | null };

/** The newest lines before a place in an app's log. */
export async function readLog(
  { projectId, appName }: { readonly projectId: string; readonly appName: string },
  query: LogFilter & { readonly pageSize: number; readonly beforeDate?: string; readonly nextToken?: string },
  signal?: AbortSignal,
): Promise<LogPage> {
  const path = `/v2/projects/${projectId}/apps/${idOf(projectId, appName)}/logs`;
  const { replica: container, ...rest } = query;
  const { logs, nextPageToken } = await ask(LOG_PAGE, path, { query: { ...rest, container }, signal });
  const lines = logs.map(({ timestamp, runId, containerId, stream, logLine }) => ({
    timestamp,
    runId,
    replica: containerId,
    stream,
    text: logLine,
  }));
  return { lines: lines.toReversed(), olderToken: nextPageToken };
}
