import { z } from "zod";
import { AppError } from "../../model/errors.ts";
import { FIRST_TAG, LAST_TAG, LOG_STREAMS, logIdAt, parseTimestamp } from "../../model/log-line.ts";
import { type LogLine, timestampOf } from "../../model/log-line.ts";
import { appId, RUN_ID } from "../../model/names.ts";
import { LOG_PAGE, type LogFrame, type LogLineRecord } from "../../shapes/logs.ts";
import { badField, findApp, nameIn, NEXT_TOKEN, pageSize } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";
import type { Server } from "node:http";
import type { TailQuery } from "../../apps/logs/log-book.ts";
import type { App } from "../../model/app.ts";
import type { BuildLine } from "../../model/build.ts";
import type { BuildFrame } from "../../shapes/builds.ts";
import { attachSockets, type SocketParts, type SocketRoute, type Sockets } from "../api/sockets.ts";
import { buildLineRecord } from "./deploys.ts";

const operation = tagged("Logs");

const REPLICA_ID = /^[\w.-]{0,100}$/;

/** A read of this many lines does not delay other requests. */
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

function lineRecord(line: LogLine, { projectId, name }: App): LogLineRecord {
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
function positionAfter(date: string): string {
  return logIdAt(parseTimestamp(date) ?? 0n, LAST_TAG);
}

/** A token names a place, so it stays valid after the line there is deleted. */
function readToken(token: string): string {
  const position = Buffer.from(token, "base64url").toString();
  if (!RUN_ID.test(position))
    throw new AppError("bad_request", { message: "nextToken does not belong to this list." });
  return position;
}

type LogSocketParts = Pick<ManagementParts, "store" | "deployer" | "logBook">;

/** A build's log, one JSON object per frame, from its first line or from `after`; it ends with the build. */
function buildLogSocket({ store, deployer }: LogSocketParts): SocketRoute {
  const find = async (query: URLSearchParams): Promise<App | null> => {
    const buildId = query.get("buildID")?.toLowerCase() ?? "";
    const build = RUN_ID.test(buildId) ? await store.builds.find(buildId) : null;
    const apps = await store.apps.list(query.get("projectID") ?? "");
    return apps.find(({ number }) => number === build?.appNumber) ?? null;
  };
  return {
    access: "deploy",
    appOf: async (query) => {
      const app = await find(query);
      return app && { projectId: app.projectId, appName: app.name };
    },
    open: async (query) => {
      const buildId = query.get("buildID")?.toLowerCase() ?? "";
      const app = await find(query);
      if (!app) throw new AppError("build_not_found");
      const after = readAfter(query);
      const id = appId(app.projectId, app.name);
      return async function* texts(signal) {
        for await (const lines of deployer.logs.follow(buildId, after, signal))
          yield lines.map((line) => buildFrame(buildId, id, line));
      };
    },
  };
}

function buildFrame(buildId: string, id: string, line: BuildLine): string {
  const { id: logId, createdAt, log } = buildLineRecord(buildId, line);
  const frame: BuildFrame = {
    build_id: buildId,
    log_id: logId,
    app_id: id,
    container_id: null,
    timestamp: createdAt,
    log,
    stream: line.stream,
    region: null,
    log_line_number: line.number,
    stage: line.stage,
  };
  return JSON.stringify(frame);
}

/** The position in a log that `after` gives as a line's id or a time; null without it. */
function readAfter(query: URLSearchParams): string | null {
  const after = query.get("after") ?? "";
  if (after === "") return null;
  if (RUN_ID.test(after)) return after;
  if (parseTimestamp(after) === null) throw badField("after", "is not an RFC 3339 time");
  return positionAfter(after);
}

/** Serves `/ws-logs` and `/ws-build-logs` on the management API's listener. */
export function attachLogSockets(server: Server, parts: LogSocketParts, sockets: SocketParts): Sockets {
  const routes = { "/ws-logs": logSocket(parts), "/ws-build-logs": buildLogSocket(parts) };
  return attachSockets(server, routes, sockets);
}

/** The tail of an app's log, one JSON object per frame. */
export function logSocket({ store, logBook }: Omit<LogSocketParts, "deployer">): SocketRoute {
  return {
    access: "deploy",
    appOf: async (query) => {
      const projectId = query.get("projectID") ?? "";
      const appName = nameIn(projectId, query.get("appID") ?? "");
      return appName === null ? null : { projectId, appName };
    },
    open: async (query) => {
      const projectId = query.get("projectID") ?? "";
      const app = await findApp(store, { project_id: projectId, app_id: query.get("appID") ?? "" });
      const id = appId(projectId, app.name);
      const wanted = { appNumber: app.number, ...readQuery(query) };
      const withStream = query.get("withStream") === "true";
      return async function* frames(signal) {
        for await (const lines of logBook.tail(wanted, signal)) {
          yield lines.map((line) => frameOf(id, line, withStream));
        }
      };
    },
  };
}

/** Without `after`, the log of an app starts now, and that of a run at its first line. */
function readQuery(query: URLSearchParams): Omit<TailQuery, "appNumber"> {
  const runId = query.get("runID")?.toLowerCase() ?? "";
  const replicaId = query.get("containerID") ?? "";
  if (runId !== "" && !RUN_ID.test(runId)) throw badField("runID", "is not a run's id");
  if (!REPLICA_ID.test(replicaId)) throw badField("containerID", "is not a container's id");
  const after = readAfter(query) ?? (runId === "" ? null : logIdAt(0n, FIRST_TAG));
  return {
    ...(runId !== "" && { runId }),
    ...(replicaId !== "" && { replicaId }),
    ...(after !== null && { after }),
  };
}

function frameOf(id: string, line: LogLine, withStream: boolean): string {
  const { runId, replicaId, text, stream, id: lineId } = line;
  const timestamp = timestampOf(lineId);
  const frame: LogFrame = { app_id: id, run_id: runId, timestamp, container_name: replicaId, log: text };
  return JSON.stringify({ ...frame, ...(withStream && { stream }) });
}
