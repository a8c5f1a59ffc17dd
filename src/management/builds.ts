import { z } from "zod";
import type { Deployer } from "../apps/deploys/deployer.ts";
import type { Audit } from "../identity/audit.ts";
import type { Build } from "../model/build.ts";
import { AppError } from "../model/errors.ts";
import { BUILD, BUILDS, BUILD_LOG } from "../shapes/builds.ts";
import type { Store } from "../store/store.ts";
import { findApp } from "./api/find-app.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { record } from "./api/record.ts";
import { APP_PATH } from "./api/schemas.ts";
import { buildRecord, lineRecord } from "./build-record.ts";

export type BuildParts = {
  readonly store: Store;
  readonly deployer: Deployer;
  readonly audit: Pick<Audit, "record">;
};

const TAG = "Builds";
const PATH = "/v2/projects/{project_id}/apps/{app_id}/builds";
const BUILD_PATH = APP_PATH.extend({ build_id: z.uuid() });
/** More than are kept. */
const MAX_BUILDS = 1_000;

/** An app's builds: how its deploys went. */
export function buildOperations({ store, deployer, audit }: BuildParts): AnyOperation[] {
  const findBuild = async (params: z.output<typeof BUILD_PATH>): Promise<Build> => {
    const app = await findApp(store, params);
    const build = await store.builds.find(params.build_id.toLowerCase());
    if (build?.appNumber !== app.number) throw new AppError("build_not_found");
    return build;
  };
  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listBuilds",
      tag: TAG,
      summary: "List an app's builds, newest first",
      access: "deploy",
      params: APP_PATH,
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
          // One that is still tried can not be put back.
          version: build.status === "success" ? (numbers.get(build.id) ?? null) : null,
          isServing: build.id === currentVersionId,
        }));
      },
    }),
    operation({
      method: "GET",
      path: `${PATH}/{build_id}`,
      id: "getBuild",
      tag: TAG,
      summary: "Get a build",
      access: "deploy",
      params: BUILD_PATH,
      response: BUILD,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => buildRecord(await findBuild(params)),
    }),
    operation({
      method: "GET",
      path: `${PATH}/{build_id}/logs`,
      id: "listBuildLogs",
      tag: TAG,
      summary: "Get a build's log so far; the last line of a failed build says why",
      access: "deploy",
      params: BUILD_PATH,
      response: BUILD_LOG,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => {
        // The status first: with a final one the log is whole.
        const { id, status } = await findBuild(params);
        return { logs: (await deployer.logs.read(id)).map((line) => lineRecord(id, line)), status };
      },
    }),
    operation({
      method: "DELETE",
      path: `${PATH}/{build_id}`,
      id: "cancelBuild",
      tag: TAG,
      summary: "Cancel a build; what serves goes on serving",
      access: "deploy",
      params: BUILD_PATH,
      response: BUILD,
      errors: ["app_not_found", "build_not_found", "build_finished"],
      handle: async (call) => {
        const build = await findBuild(call.params);
        await deployer.cancel(build);
        const ended = await findBuild(call.params);
        const [before, after] = [{ status: build.status }, { status: ended.status }];
        await record(audit, call, { action: "build.cancel", target: build.id, before, after });
        return buildRecord(ended);
      },
    }),
  ];
}
