import type { Deployer } from "../apps/deploys/deployer.ts";
import type { App } from "../model/app.ts";
import type { BuildLine } from "../model/build.ts";
import { AppError } from "../model/errors.ts";
import { RUN_ID, appId } from "../model/names.ts";
import type { BuildFrame } from "../shapes/builds.ts";
import type { Store } from "../store/store.ts";
import { lineRecord } from "./build-record.ts";
import { readAfter } from "./log-position.ts";
import type { SocketRoute } from "./sockets.ts";

export type BuildLogSocketParts = { readonly store: Store; readonly deployer: Pick<Deployer, "follow"> };

/** A build's log, one JSON object a frame, from its first line or after a place; it ends with the build. */
export function buildLogSocket({ store, deployer }: BuildLogSocketParts): SocketRoute {
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
      const projectId = query.get("projectID") ?? "";
      const buildId = query.get("buildID")?.toLowerCase() ?? "";
      const app = await find(query);
      if (!app) throw new AppError("build_not_found");
      const after = readAfter(query);
      const frameOf = frames(buildId, appId(projectId, app.name));
      return async function* texts(signal) {
        for await (const lines of deployer.follow(buildId, after, signal)) yield lines.map(frameOf);
      };
    },
  };
}

function frames(buildId: string, id: string): (line: BuildLine) => string {
  return (line) => {
    const { id: logId, createdAt, log } = lineRecord(buildId, line);
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
  };
}
