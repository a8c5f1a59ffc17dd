import { WHOLE_PROJECT } from "../../apps/secrets.ts";
import type { SecretMap } from "../../model/app.ts";
import { AppError } from "../../model/errors.ts";
import { SECRET_MAP } from "../../shapes/projects.ts";
import type { SecretScope } from "../../store/accounts/sealed-secrets.ts";
import { findApp } from "../api/inputs.ts";
import { type Call, type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Secrets");
const PATH = "/v2/projects/{project_id}/secrets";
const APP_SECRETS = "/v2/projects/{project_id}/apps/{app_id}/secrets";
const MAX_NAMES = 500;
/** All of them become environment variables of every replica. */
const MAX_MAP_BYTES = 512 * 1024;
const BOUNDS = { maxBodyBytes: MAX_MAP_BYTES, maxValues: MAX_NAMES + 1 } as const;

/** The secrets of a project and of its apps: maps that are replaced as a whole. */
export function secretOperations({ store, secrets, catalog }: ManagementParts): Operation[] {
  const replace = async (
    scope: SecretScope,
    call: Call<{ readonly project_id: string }, unknown, SecretMap>,
    target: string,
  ): Promise<SecretMap> => {
    // zod drops it silently.
    if (Object.hasOwn(call.reply.request.body as object, "__proto__")) {
      throw new AppError("bad_request", { message: "__proto__ cannot be the name of a secret." });
    }
    const before = Object.keys(await secrets.read(scope));
    await secrets.replace(scope, call.body);
    const { projectId, appNumber } = scope;
    await catalog.refreshSecrets(projectId, appNumber === WHOLE_PROJECT ? null : appNumber);
    const after = Object.keys(call.body);
    await call.record("secrets.replace", target, { before, after });
    call.reply.header("cache-control", "no-store");
    return call.body;
  };
  return [
    operation("GET", PATH, {
      id: "getProjectSecrets",
      summary: "Get a project's secrets",
      access: "deploy",
      response: SECRET_MAP,
      handle: ({ projectId, reply }) => {
        reply.header("cache-control", "no-store");
        return secrets.read({ projectId, appNumber: WHOLE_PROJECT });
      },
    }),
    operation("PATCH", PATH, {
      id: "replaceProjectSecrets",
      summary: "Replace all secrets of a project",
      access: "admin",
      body: SECRET_MAP,
      ...BOUNDS,
      response: SECRET_MAP,
      handle: (call) =>
        replace({ projectId: call.projectId, appNumber: WHOLE_PROJECT }, call, call.projectId),
    }),
    operation("GET", APP_SECRETS, {
      id: "getAppSecrets",
      summary: "Get an app's secrets",
      access: "deploy",
      response: SECRET_MAP,
      errors: ["app_not_found"],
      handle: async ({ params, reply }) => {
        const { number: appNumber, projectId } = await findApp(store, params);
        reply.header("cache-control", "no-store");
        return await secrets.read({ projectId, appNumber });
      },
    }),
    operation("PATCH", APP_SECRETS, {
      id: "replaceAppSecrets",
      summary: "Replace all secrets of an app",
      access: "admin",
      body: SECRET_MAP,
      ...BOUNDS,
      response: SECRET_MAP,
      errors: ["app_not_found"],
      handle: async (call) => {
        const { number: appNumber, projectId } = await findApp(store, call.params);
        return await replace({ projectId, appNumber }, call, call.params.app_id);
      },
    }),
  ];
}
