import { buildLineId } from "../../apps/deploys/build-log.ts";
import type { Build, BuildLine } from "../../model/build.ts";
import { AppError } from "../../model/errors.ts";
import { timestampOf } from "../../model/log-line.ts";
import { BUILD, BUILD_LOG, type BuildLineRecord, type BuildRecord, BUILDS } from "../../shapes/builds.ts";
import { timestamp } from "../../shapes/common.ts";
import { findApp } from "../api/inputs.ts";
import { type Operation, type Params, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Builds");
const PATH = "/v2/projects/{project_id}/apps/{app_id}/builds";
const BUILD_URL = `${PATH}/{build_id}` as const;
/** More than are kept. */
const MAX_BUILDS = 1_000;

/** An app's builds: how its deploys went. */
export function buildOperations({ store, deployer }: ManagementParts): Operation[] {
  const findBuild = async (params: Params<typeof BUILD_URL>): Promise<Build> => {
    const app = await findApp(store, params);
    const build = await store.builds.find(params.build_id.toLowerCase());
    if (build?.appNumber !== app.number) throw new AppError("build_not_found");
    return build;
  };
  return [
    operation("GET", PATH, {
      id: "listBuilds",
      summary: "List an app's builds, newest first",
      access: "deploy",
      response: BUILDS,
      errors: ["app_not_found"],
      handle: async ({ params }) => {
        const { number: appNumber, currentVersionId } = await findApp(store, params);
        const builds = await store.builds.list({ appNumber, limit: MAX_BUILDS });
        const versions = await store.versions.list(appNumber);
        const numbers = new Map(versions.map(({ id, number }) => [id, number]));
        return builds.map((build) => ({
          ...buildRecord(build),
          message: build.message,
          // A version that is still being checked cannot be rolled back to.
          version: build.status === "success" ? (numbers.get(build.id) ?? null) : null,
          isServing: build.id === currentVersionId,
        }));
      },
    }),
    operation("GET", BUILD_URL, {
      id: "getBuild",
      summary: "Get a build",
      access: "deploy",
      response: BUILD,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => buildRecord(await findBuild(params)),
    }),
    operation("GET", `${BUILD_URL}/logs`, {
      id: "listBuildLogs",
      summary: "Get a build's log so far; the last line of a failed build says why",
      access: "deploy",
      response: BUILD_LOG,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => {
        // The status first: with a final one the log is whole.
        const { id, status } = await findBuild(params);
        return { logs: (await deployer.logs.read(id)).map((line) => lineRecord(id, line)), status };
      },
    }),
    operation("DELETE", BUILD_URL, {
      id: "cancelBuild",
      summary: "Cancel a build; what serves goes on serving",
      access: "deploy",
      response: BUILD,
      errors: ["app_not_found", "build_not_found", "build_finished"],
      handle: async (call) => {
        const build = await findBuild(call.params);
        await deployer.cancel(build);
        const ended = await findBuild(call.params);
        const [before, after] = [{ status: build.status }, { status: ended.status }];
        await call.record({ action: "build.cancel", target: build.id, before, after });
        return buildRecord(ended);
      },
    }),
  ];
}

/** A build as the API shows it. */
export function buildRecord({ id, status, createdAt, updatedAt }: Build): BuildRecord {
  return { id, status, createdAt: timestamp(createdAt), updatedAt: timestamp(updatedAt) };
}

/** A line of a build's log as the API shows it. */
export function lineRecord(buildId: string, line: BuildLine): BuildLineRecord {
  const id = buildLineId(buildId, line);
  return { id, createdAt: timestampOf(id), log: line.text };
}
