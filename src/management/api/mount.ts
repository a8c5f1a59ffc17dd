import type { FastifyInstance, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { Principal } from "../../identity/principal.ts";
import { requireRole } from "../../identity/principal.ts";
import { AppError } from "../../model/errors.ts";
import type { AnyOperation } from "./operation.ts";

const METHODS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"] as const;

/** Says who sends a request; throws `unauthorized`. */
export type Authenticate = (authorization: string | null) => Promise<Principal>;

/** Serves operations: who asks comes first, then what is asked, then the work. */
export function mount(
  app: FastifyInstance,
  operations: readonly AnyOperation[],
  authenticate: Authenticate,
): void {
  for (const operation of operations) {
    app.route({
      method: operation.method,
      url: urlOf(operation.path),
      handler: async (request, reply) => {
        const principal = await admit(operation, request, authenticate);
        const params = read(operation.params, request.params, "path");
        const query = read(operation.query, request.query, "query");
        const body = read(operation.body, request.body, "body");
        const { id: requestId, ip } = request;
        const call = { params, query, body, principal, requestId, ip, reply };
        return await operation.handle(call as never);
      },
    });
  }
  for (const [path, known] of Map.groupBy(operations, ({ path }) => path)) refuseOthers(app, path, known);
}

/** Other methods of a known path are told which there are. */
function refuseOthers(app: FastifyInstance, path: string, known: readonly AnyOperation[]): void {
  const methods = known.map(({ method }) => method);
  // Fastify answers HEAD wherever there is a GET.
  const allow: string[] = methods.includes("GET") ? [...methods, "HEAD"] : methods;
  app.route({
    method: METHODS.filter((method) => !allow.includes(method)),
    url: urlOf(path),
    handler: () => {
      throw new AppError("method_not_allowed", { headers: { allow: allow.join(", ") } });
    },
  });
}

function urlOf(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}

async function admit(
  { access }: AnyOperation,
  request: FastifyRequest,
  authenticate: Authenticate,
): Promise<Principal | null> {
  if (access === null) return null;
  const principal = await authenticate(request.headers.authorization ?? null);
  if (access === "any") return principal;
  const { project_id: projectId = "" } = request.params as { project_id?: string };
  requireRole(principal, projectId, access);
  return principal;
}

/** The input in the schema's form; throws `bad_request` with every fault. */
function read(schema: z.ZodType | undefined, input: unknown, where: string): unknown {
  if (!schema) return undefined;
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const details = result.error.issues.map(({ path, message }) => ({
    field: path.join(".") || where,
    problem: message,
  }));
  const message = details.map(({ field, problem }) => `${field}: ${problem}`).join("; ");
  throw new AppError("bad_request", { message, details });
}
