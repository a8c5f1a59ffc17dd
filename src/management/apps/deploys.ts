import { buildLineId } from "../../apps/deploys/build-log.ts";
import type { Build, BuildLine } from "../../model/build.ts";
import { AppError } from "../../model/errors.ts";
import { timestampOf } from "../../model/log-line.ts";
import {
  BEGUN_DEPLOY,
  BUILD,
  BUILD_CHANGES,
  BUILD_LOG,
  BUILDS,
  DEPLOY_LINE,
  DRY_RUN,
} from "../../shapes/builds.ts";
import { type BuildRecord, type DeployLine, UPLOADED_BUNDLE } from "../../shapes/builds.ts";
import { timestamp } from "../../shapes/common.ts";
import { deployedBy } from "../../apps/deploys/deployer.ts";
import { subjectOf } from "../../identity/principal.ts";
import { findApp } from "../api/inputs.ts";
import { type Call, type Operation, type Params, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";
import { changesOf } from "./build-changes.ts";
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { z } from "zod";
import { APP_KEYS, partnerOf, partnerRefusal } from "../../config/app-shape.ts";
import { readDeployRequest, SYNTAX_MEMBER } from "../../apps/deploys/deploy-request.ts";
import type { App } from "../../model/app.ts";
import { appId } from "../../model/names.ts";
import { apiUrlOf, baseUrlOf } from "../api/addresses.ts";
import { takeBytes } from "../api/bodies.ts";

const operation = tagged("Deploys");
const ofBuilds = tagged("Builds");
const PATH = "/v2/projects/{project_id}/apps/{app_id}/builds";
const BUILD_URL = `${PATH}/{build_id}` as const;
/** More than are kept. */
const MAX_BUILDS = 1_000;

function buildRecord({ id, status, createdAt, updatedAt }: Build): BuildRecord {
  return { id, status, createdAt: timestamp(createdAt), updatedAt: timestamp(updatedAt) };
}

/** A line of a build's log as the API shows it. */
export function buildLineRecord(buildId: string, line: BuildLine) {
  const id = buildLineId(buildId, line);
  return { id, createdAt: timestampOf(id), log: line.text };
}

const UPLOAD_PATH = "/v2/builds/upload";

/** The members are validated with the app's configuration, which reports all problems at once. */
const PAYLOAD = z.looseObject({
  ...Object.fromEntries(
    APP_KEYS.flatMap(({ payload, meaning }) =>
      payload === undefined ? [] : [[payload, z.unknown().optional().describe(meaning)]],
    ),
  ),
  runtime: z.unknown().optional().describe('"cortex", or "custom" for a server of the app\'s own.'),
  [SYNTAX_MEMBER]: z
    .boolean()
    .optional()
    .describe("`false`: refuse a bundle with a Python file that does not parse, before it is built."),
  cerebrium_toml: z.unknown().optional().describe("The text of a configuration file."),
});

/** Deploys: in two calls as existing clients make them, and in one; an app's builds: how its deploys went. */
export function deployOperations(parts: ManagementParts): Operation[] {
  const { store, deployer } = parts;
  const findBuild = async (params: Params<typeof BUILD_URL>): Promise<Build> => {
    const app = await findApp(store, params);
    const build = await store.builds.find(params.build_id.toLowerCase());
    if (build?.appNumber !== app.number) throw new AppError("build_not_found");
    return build;
  };
  return [
    operation("POST", "/v2/projects/{project_id}/apps", {
      id: "beginDeploy",
      summary: "Start a deploy; PUT the bundle to its uploadUrl to have it built",
      access: "deploy",
      body: PAYLOAD,
      // With the text of a configuration file, and commands.
      maxBodyBytes: 256 * 1024,
      maxValues: 5_000,
      appOfBody: ({ project_id: projectId }, body) => ({ projectId, appName: readDeployRequest(body).name }),
      response: BEGUN_DEPLOY,
      errors: ["deploy_invalid", "draining"],
      handle: async (call) => {
        const { build, app, grant } = await deployer.begin(
          call.projectId,
          call.body,
          subjectOf(call.principal),
        );
        await recordDeploy(call, app, build);
        const { request } = call.reply;
        const base = baseUrlOf(request, parts.publicBaseUrl);
        call.reply.header("cache-control", "no-store");
        return {
          buildId: build.id,
          status: build.status,
          uploadUrl: `${base}${UPLOAD_PATH}?grant=${grant}`,
          keyName: `${app.projectId}/${app.name}/${build.id}.zip`,
          internalEndpoint: endpointOf(parts, call.reply, app),
          dashboardUrl: `${base}/projects/${app.projectId}/apps/${app.name}/builds/${build.id}`,
        };
      },
    }),
    operation("POST", "/v2/projects/{project_id}/partner-apps", {
      id: "beginPartnerDeploy",
      summary: "Always refused: partner services run on the hosted platform alone",
      access: "deploy",
      body: z.looseObject({ runtime: z.unknown().optional() }),
      maxBodyBytes: 256 * 1024,
      maxValues: 5_000,
      response: BEGUN_DEPLOY,
      errors: ["deploy_invalid"],
      handle: async ({ body }) => await Promise.reject(partnerRefused(body.runtime)),
    }),
    operation("PUT", UPLOAD_PATH, {
      id: "putBundle",
      summary: "Upload a deploy's bundle as a zip; safe to repeat, it is built once",
      access: null,
      query: z.object({ grant: z.string().min(1).max(10_000) }),
      takesBytes: true,
      appOfQuery: async (_, { grant }) => {
        const app = await deployer.appOfGrant(grant);
        return app && { projectId: app.projectId, appName: app.name };
      },
      response: UPLOADED_BUNDLE,
      errors: ["forbidden", "build_not_found", "build_finished", "body_too_large"],
      handle: async ({ query, reply }) => {
        const build = await takeBytes(reply, (from) => deployer.upload(query.grant, from));
        return { buildId: build.id };
      },
    }),
    operation("POST", "/v2/projects/{project_id}/deploys/dry-run", {
      id: "dryRunDeploy",
      summary: "Check a zip as a deploy would, and say what it would do; nothing is built or changed",
      access: "deploy",
      query: z.object({
        name: z.string().min(1).max(200),
        [SYNTAX_MEMBER]: z.stringbool().optional(),
      }),
      takesBytes: true,
      response: DRY_RUN,
      errors: ["deploy_invalid", "draining", "body_too_large"],
      handle: async ({ projectId, query, reply }) => {
        const { name, [SYNTAX_MEMBER]: isUnchecked = false } = query;
        const request = { projectId, name, checksSyntax: !isUnchecked };
        const found = await takeBytes(reply, (from) => deployer.dryRun(request, from));
        const { plan, warnings, problems, isNew } = found;
        return { app: name, isNew, plan: [...plan], warnings: [...warnings], problems: [...problems] };
      },
    }),
    operation("POST", "/v2/projects/{project_id}/deploys", {
      id: "deploy",
      summary: "Deploy a zip in one call; streams the build's log, then its outcome",
      access: "deploy",
      query: z.object({ name: z.string().min(1).max(200) }),
      takesBytes: true,
      givesLines: true,
      appOfQuery: async ({ project_id: projectId }, { name }) => ({ projectId, appName: name }),
      response: DEPLOY_LINE,
      errors: ["deploy_invalid", "draining", "body_too_large"],
      handle: async (call) => {
        const { projectId, query, reply, principal } = call;
        const upload = (from: Readable) =>
          deployer.deployUpload(projectId, query.name, from, subjectOf(principal));
        const { build, app } = await takeBytes(reply, upload);
        await recordDeploy(call, app, build);
        const gone = new AbortController();
        reply.raw.once("close", () => gone.abort());
        const endpoint = endpointOf(parts, reply, app);
        return reply
          .type("application/x-ndjson")
          .headers({ "cache-control": "no-store", "x-accel-buffering": "no" })
          .send(Readable.from(tell(parts, build, endpoint, gone.signal), { objectMode: false }));
      },
    }),
    ofBuilds("GET", PATH, {
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
          deployedBy: deployedBy(build),
        }));
      },
    }),
    ofBuilds("GET", BUILD_URL, {
      id: "getBuild",
      summary: "Get a build",
      access: "deploy",
      response: BUILD,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => buildRecord(await findBuild(params)),
    }),
    ofBuilds("GET", `${BUILD_URL}/changes`, {
      id: "getBuildChanges",
      summary: "Get what a version changes in the configuration and the functions of the one before it",
      access: "deploy",
      response: BUILD_CHANGES,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => {
        const { id, appNumber } = await findBuild(params);
        return changesOf(id, await store.versions.list(appNumber));
      },
    }),
    ofBuilds("GET", `${BUILD_URL}/logs`, {
      id: "listBuildLogs",
      summary: "Get a build's log so far; the last line of a failed build says why",
      access: "deploy",
      response: BUILD_LOG,
      errors: ["app_not_found", "build_not_found"],
      handle: async ({ params }) => {
        // The status first: with a final one the log is whole.
        const { id, status } = await findBuild(params);
        return { logs: (await deployer.logs.read(id)).map((line) => buildLineRecord(id, line)), status };
      },
    }),
    ofBuilds("DELETE", BUILD_URL, {
      id: "cancelBuild",
      summary: "Cancel a build; what serves goes on serving",
      access: "deploy",
      response: BUILD,
      errors: ["app_not_found", "build_not_found", "build_finished"],
      handle: async (call) => {
        const build = await findBuild(call.params);
        await deployer.cancel(build);
        const ended = await findBuild(call.params);
        const after = { status: ended.status };
        await call.record("build.cancel", build.id, { before: { status: build.status }, after });
        return buildRecord(ended);
      },
    }),
  ];
}

/** The build's lines, then its end. The build continues if the client disconnects. */
async function* tell(
  { deployer, store }: ManagementParts,
  { id }: Build,
  endpoint: string,
  signal: AbortSignal,
): AsyncGenerator<string> {
  for await (const lines of deployer.logs.follow(id, null, signal)) {
    yield lines.map((line) => `${JSON.stringify(oneCallLine(id, line))}\n`).join("");
  }
  const build = await store.builds.find(id);
  if (!build || signal.aborted) return;
  const end: DeployLine = { build: buildRecord(build), endpoint, message: build.message };
  yield `${JSON.stringify(end)}\n`;
}

function oneCallLine(id: string, line: BuildLine): DeployLine {
  const { log, createdAt } = buildLineRecord(id, line);
  return { log, stream: line.stream, stage: line.stage, createdAt };
}

function endpointOf({ publicApiUrl, apiPort }: ManagementParts, { request }: FastifyReply, app: App): string {
  return `${apiUrlOf(request, publicApiUrl, apiPort())}/v4/${app.projectId}/${app.name}`;
}

function partnerRefused(runtime: unknown): AppError {
  const partner = partnerOf(runtime);
  const message = partnerRefusal(partner === undefined ? "partner-apps" : `runtime = "${partner}"`);
  return new AppError("deploy_invalid", { message, details: [{ problem: message }] });
}

/** Without the payload: its commands may hold a secret. */
async function recordDeploy({ record }: Call, app: App, build: Build): Promise<void> {
  const [before, after] = [{ buildId: app.currentVersionId }, { buildId: build.id }];
  await record("app.deploy", appId(app.projectId, app.name), { before, after });
}
