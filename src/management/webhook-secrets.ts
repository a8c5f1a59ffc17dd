import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Role } from "../identity/principal.ts";
import { AppError } from "../model/errors.ts";
import type { SigningSecrets } from "../runs/webhooks/signing-secrets.ts";
import type { Store } from "../store/store.ts";

/** Throws `unauthorized` or `forbidden` unless whoever asks has the role in the project. */
export type Authorize = (request: FastifyRequest, projectId: string, role: Role) => Promise<unknown> | void;

export type SecretParts = {
  readonly store: Store;
  readonly secrets: SigningSecrets;
  readonly authorize: Authorize;
};

type ProjectPath = { readonly Params: { readonly project_id: string } };
type SecretPath = { readonly Params: { readonly project_id: string; readonly id: string } };

/** Each delivery carries a signature of every one. */
const MAX_ACTIVE = 10;
const PATH = "/v2/projects/:project_id/webhook-secrets";

/** The secrets that a project's webhooks are signed with: list, make, remove. */
export function addWebhookSecretRoutes(
  app: FastifyInstance,
  { store, secrets, authorize }: SecretParts,
): void {
  const active = async (projectId: string) =>
    (await store.webhookSecrets.list(projectId)).filter(({ retiredAt }) => retiredAt === null);

  app.get<ProjectPath>(PATH, async (request) => {
    const { project_id: projectId } = request.params;
    await authorize(request, projectId, "deploy");
    return (await active(projectId)).map(({ id, createdAt }) => ({ id, createdAt: timestamp(createdAt) }));
  });

  app.post<ProjectPath>(PATH, async (request, reply) => {
    const { project_id: projectId } = request.params;
    await authorize(request, projectId, "admin");
    if ((await active(projectId)).length >= MAX_ACTIVE) {
      throw new AppError("bad_request", { message: `A project has at most ${MAX_ACTIVE} webhook secrets.` });
    }
    const { id, createdAt, secret } = await secrets.make(projectId);
    reply.header("cache-control", "no-store");
    return { id, createdAt: timestamp(createdAt), secret };
  });

  app.delete<SecretPath>(`${PATH}/:id`, async (request) => {
    const { project_id: projectId, id } = request.params;
    await authorize(request, projectId, "admin");
    if (!(await secrets.retire(projectId, id))) throw new AppError("not_found");
    return { id };
  });
}

function timestamp(at: number): string {
  return new Date(at).toISOString();
}
