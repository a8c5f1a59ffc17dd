import { z } from "zod";
import { AppError } from "../../model/errors.ts";
import {
  FIRST_TAG,
  LAST_TAG,
  LOG_STREAMS,
  logIdAt,
  parseTimestamp,
  timestampOf,
} from "../../model/log-line.ts";
import type { LogLine } from "../../model/log-line.ts";
import { RUN_ID, appId } from "../../model/names.ts";
import { LOG_PAGE, type LogLineRecord } from "../../shapes/logs.ts";
import { findApp, NEXT_TOKEN, pageSize } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Logs");

/** Of a replica's id, or nothing. */
export const REPLICA_ID = /^[\w.-]{0,100}$/;

/** So many lines are read without delaying other requests. */
const SHORT_PAGE = 500;

const DATE = z.iso.datetime({ offset: true }).max(64);

const QUERY = z.object({
  container: z.string().regex(REPLICA_ID).optional(),
  beforeDate: DATE.optional(),
  afterDate: DATE.optional(),
  pageSize: pageSize(500, 1000),
  nextToken: NEXT_TOKEN.optional(),
  direction: z.enum(["forward", "backward"]).default("backward"),
  search: z.string().max(200).optional(),
  stream: z.enum(LOG_STREAMS).optional(),
  runId: z.uuid().optional(),
});

/** The log of an app. */
export function logOperations({ store, logBook }: ManagementParts): Operation[] {
  return [
    operation("GET", "/v2/projects/{project_id}/apps/{app_id}/logs", {
      id: "listLogs",
      summary: "List the lines an app printed, newest or oldest first",
      access: "deploy",
      query: QUERY,
      isHeavy: ({ search, stream, container, pageSize: lines }) =>
        Boolean(search || stream || container) || lines > SHORT_PAGE,
      response: LOG_PAGE,
      errors: ["app_not_found"],
      handle: async ({ params, query }) => {
        const app = await findApp(store, params);
        const { container, search, stream, runId, direction } = query;
        const { lines, reached } = await logBook.query({
          appNumber: app.number,
          direction,
          pageSize: query.pageSize,
          ...bounds(query),
          ...(container && { replicaId: container }),
          ...(search && { search }),
          ...(stream && { stream }),
          ...(runId && { runId: runId.toLowerCase() }),
        });
        return {
          logs: lines.map((line) => lineRecord(line, app)),
          nextPageToken: reached === null ? null : Buffer.from(reached).toString("base64url"),
          hasMore: reached !== null,
        };
      },
    }),
  ];
}

function lineRecord(line: LogLine, { projectId, name }: { projectId: string; name: string }): LogLineRecord {
  return {
    appId: appId(projectId, name),
    projectId,
    runId: line.runId,
    containerId: line.replicaId,
    containerName: line.replicaId,
    logId: line.id,
    lineNumber: line.lineNumber,
    logLine: line.text,
    stream: line.stream,
    timestamp: timestampOf(line.id),
  };
}

/** Between the dates, and from where the token says. */
function bounds({ beforeDate, afterDate, nextToken = "", direction }: z.output<typeof QUERY>) {
  const token = nextToken === "" ? null : readToken(nextToken);
  const after = afterDate === undefined ? null : positionAfter(afterDate);
  const before = beforeDate === undefined ? null : logIdAt(parseTimestamp(beforeDate) ?? 0n, FIRST_TAG);
  const [afters, befores] = direction === "forward" ? [[after, token], [before]] : [[after], [before, token]];
  const last = afters
    .filter((position) => position !== null)
    .toSorted()
    .at(-1);
  const first = befores.filter((position) => position !== null).toSorted()[0];
  return { ...(last && { after: last }), ...(first && { before: first }) };
}

/** The place in a log after all lines of that RFC 3339 time. */
export function positionAfter(date: string): string {
  return logIdAt(parseTimestamp(date) ?? 0n, LAST_TAG);
}

/** A token names a place, whether or not a line is still there: so it stays valid. */
function readToken(token: string): string {
  const position = Buffer.from(token, "base64url").toString();
  if (!RUN_ID.test(position))
    throw new AppError("bad_request", { message: "nextToken does not belong to this list." });
  return position;
}
