import type { Server } from "node:http";
import type { LogBook, TailQuery } from "../apps/logs/log-book.ts";
import { FIRST_TAG, logIdAt, timestampOf } from "../model/log-line.ts";
import type { LogLine } from "../model/log-line.ts";
import { RUN_ID, appId } from "../model/names.ts";
import type { LogFrame, LogFrameWithStream } from "../shapes/logs.ts";
import type { Store } from "../store/store.ts";
import { findApp, nameIn } from "./api/find-app.ts";
import { buildLogSocket } from "./build-log-socket.ts";
import type { BuildLogSocketParts } from "./build-log-socket.ts";
import { badQuery, readAfter } from "./log-position.ts";
import { REPLICA_ID } from "./logs.ts";
import { attachSockets } from "./sockets.ts";
import type { SocketParts, SocketRoute, Sockets } from "./sockets.ts";

export type LogSocketParts = { readonly store: Store; readonly logBook: LogBook };

/** Serves `/ws-logs` and `/ws-build-logs` on the management API's listener. */
export function attachLogSockets(
  server: Server,
  parts: LogSocketParts & BuildLogSocketParts & SocketParts,
): Sockets {
  const routes = { "/ws-logs": logSocket(parts), "/ws-build-logs": buildLogSocket(parts) };
  return attachSockets(server, routes, parts);
}

/** The tail of an app's log, one JSON object a frame. */
export function logSocket({ store, logBook }: LogSocketParts): SocketRoute {
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

/** Without `after` an app is followed from now on, a run from its first line. */
function readQuery(query: URLSearchParams): Omit<TailQuery, "appNumber"> {
  const runId = query.get("runID")?.toLowerCase() ?? "";
  const replicaId = query.get("containerID") ?? "";
  if (runId !== "" && !RUN_ID.test(runId)) throw badQuery("runID", "is not a run's id");
  if (!REPLICA_ID.test(replicaId)) throw badQuery("containerID", "is not a container's id");
  const position = readAfter(query);
  const start = runId === "" ? null : logIdAt(0n, FIRST_TAG);
  return {
    ...(runId !== "" && { runId }),
    ...(replicaId !== "" && { replicaId }),
    ...((position ?? start) !== null && { after: position ?? start! }),
  };
}

function frameOf(
  id: string,
  { runId, replicaId, text, stream, id: lineId }: LogLine,
  withStream: boolean,
): string {
  const frame: LogFrame | LogFrameWithStream = {
    app_id: id,
    run_id: runId,
    timestamp: timestampOf(lineId),
    container_name: replicaId,
    log: text,
    ...(withStream && { stream }),
  };
  return JSON.stringify(frame);
}
