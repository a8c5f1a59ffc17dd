import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { requireMoreThanCalls, requirePerson, requireRole } from "../../identity/principal.ts";
import type { Principal } from "../../identity/principal.ts";
import { AppError } from "../../model/errors.ts";
import { addressKey } from "../../kit/ip-addresses.ts";
import { isPlainText } from "./json-body.ts";
import type { AppKey } from "../../nodes/forward/app-locator.ts";
import type { Shape } from "../../shapes/shape.ts";
import type { AnyOperation } from "./operation.ts";
import { fromPeer } from "./from-peer.ts";
import { nameIn } from "./find-app.ts";
import type { ManagementPassing } from "./passing.ts";
import { Shares } from "./shares.ts";
import type { Lane, Payers, Turn } from "./shares.ts";

const MAX_BODY_BYTES = 64 * 1024;
const MAX_VALUES = 2_000;
/** How often a request whose app moves away and back is tried here. */
const MAX_TRIES = 5;
/** A body may have a million faults; nobody reads more. */
const MAX_DETAILS = 20;
const MAX_FIELD_CHARS = 200;

/** Says who sends a request; throws `unauthorized`. */
export type Authenticate = (authorization: string | null) => Promise<Principal>;

/** Throws `forbidden` for who does not run the installation. */
export type RequireOperator = (principal: Principal) => Promise<void>;

type Porter = {
  readonly authenticate: Authenticate;
  readonly requireOperator: RequireOperator;
  readonly shares: Shares;
  /** Null for a service alone. */
  readonly passing: ManagementPassing | null;
};

/** Serves operations: who asks comes first, before a byte of the body is read, then what is asked, then the work. */
export function mount(
  app: FastifyInstance,
  operations: readonly AnyOperation[],
  authenticate: Authenticate,
  requireOperator: RequireOperator = refuseAll,
  shares = new Shares(),
  passing: ManagementPassing | null = null,
): void {
  const porter = { authenticate, requireOperator, shares, passing };
  const [plain, ofBytes] = [
    operations.filter(({ takesBytes }) => !takesBytes),
    operations.filter(({ takesBytes }) => takesBytes),
  ];
  for (const operation of plain) addRoute(app, operation, porter);
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // The operation itself reads the request, whatever it is said to hold.
    scope.addContentTypeParser("*", async () => undefined);
    for (const operation of ofBytes) addRoute(scope, operation, porter);
  });
  for (const [path, known] of Map.groupBy(operations, ({ path }) => path)) {
    refuseOthers(
      app,
      path,
      known.map(({ method }) => method),
    );
  }
}

/** Other methods of a known path are told which there are. */
export function refuseOthers(app: FastifyInstance, path: string, methods: readonly string[]): void {
  // Fastify answers HEAD wherever there is a GET.
  app.knownPaths.add(urlOf(path), methods.includes("GET") ? [...methods, "HEAD"] : methods);
}

function addRoute(app: FastifyInstance, operation: AnyOperation, porter: Porter): void {
  const admitted = new WeakMap<FastifyRequest, { readonly principal: Principal; readonly turn: Turn }>();
  const pass = async (request: FastifyRequest, reply: FastifyReply, to: AppKey): Promise<boolean> =>
    (await porter.passing?.pass(request, reply, to, request.bytes ?? undefined)) ?? false;
  app.route({
    method: operation.method,
    url: urlOf(operation.path),
    config: configOf(operation),
    onRequest: async (request, reply) => {
      const principal = await admit(operation, request, porter);
      // After the token was seen: nobody else makes us look for an app.
      const app = porter.passing && (await appOf(operation, request));
      if (app && (await pass(request, reply, app))) return;
      if (fromPeer(request.raw)?.isHeld) reply.raw.writeContinue();
      if (!principal) return;
      const lane = laneOf(operation, request);
      const turn = await porter.shares.take(reply, lane, payersOf(principal, request));
      admitted.set(request, { principal, turn });
    },
    handler: async (request, reply) => {
      const params = read(operation.params, request.params, "path");
      const query = read(operation.query, request.query, "query");
      const body = read(operation.body, request.body, "body");
      const app = operation.appOfBody?.(params as never, body as never);
      if (app && (await pass(request, reply, app))) return reply;
      const { id: requestId } = request;
      const { ip } = request.sender ?? request;
      const known = admitted.get(request) ?? null;
      // After the body: who sends it slowly keeps nobody at the same address waiting.
      const turn =
        known?.turn ??
        (await porter.shares.take(reply, laneOf(operation, request), { address: addressKey(ip) }));
      const call = { params, query, body, principal: known?.principal ?? null, requestId, ip, reply };
      for (let tries = 1; ; tries += 1) {
        try {
          return await turn(() => operation.handle(call as never));
        } catch (error) {
          const moved = isUnsent(error, request) ? (app ?? (await appOf(operation, request))) : null;
          if (!moved || tries === MAX_TRIES) throw error;
          // If it is not passed on, the app is here again.
          if (await pass(request, reply, moved)) return reply;
        }
      }
    },
  });
}

/** Its app has just moved: nothing of it has begun, and its body can still be sent. It is kept, or nobody has read it. */
function isUnsent(error: unknown, { bytes, raw }: FastifyRequest): boolean {
  const isMoved = error instanceof AppError && error.code === "app_moved";
  return isMoved && (Boolean(bytes) || !raw.readableDidRead);
}

/** The app that a request is about, as far as can be told before its body is read. */
async function appOf(operation: AnyOperation, { params, query }: FastifyRequest): Promise<AppKey | null> {
  const { project_id: projectId = "", app_id: id } = params as { project_id?: string; app_id?: string };
  if (id !== undefined) {
    const appName = nameIn(projectId, id);
    return appName === null ? null : { projectId, appName };
  }
  if (!operation.appOfQuery) return null;
  const given = read(operation.params, params, "path");
  return await operation.appOfQuery(given as never, read(operation.query, query, "query") as never);
}

/** Who has shown a token may send more than anybody. */
function configOf({
  access,
  takesForm = false,
  maxBodyBytes,
  maxValues,
  appOfBody,
}: AnyOperation): FastifyContextConfig {
  if (access === null) return { takesForm, maxBodyBytes, maxValues };
  return {
    takesForm,
    maxBodyBytes: maxBodyBytes ?? MAX_BODY_BYTES,
    maxValues: maxValues ?? MAX_VALUES,
    keepsBytes: appOfBody !== undefined,
  };
}

function urlOf(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}

function laneOf(operation: AnyOperation, request: FastifyRequest): Lane {
  const { isHeavy, takesBytes, givesBytes, givesLines } = operation;
  if (takesBytes || givesBytes || givesLines) return "transfer";
  return isHeavy?.(read(operation.query, request.query, "query") as never) ? "heavy" : "quick";
}

function payersOf(principal: Principal, { params }: FastifyRequest): Payers {
  const { project_id: inPath } = params as { project_id?: string };
  if (principal.projectId === null) return { token: principal.personId, project: inPath ?? null };
  return { token: principal.accountId, project: inPath ?? principal.projectId };
}

async function admit(
  { access }: AnyOperation,
  { headers, params, sender }: FastifyRequest,
  { authenticate, requireOperator }: Porter,
): Promise<Principal | null> {
  if (access === null) return null;
  const principal = await authenticate(headers.authorization ?? null);
  requireMoreThanCalls(principal);
  const { project_id: projectId = "" } = params as { project_id?: string };
  if (access === "person") requirePerson(principal);
  else if (access === "operator") await requireOperator(principal);
  else if (access !== "any") requireRole(principal, projectId, access);
  sender?.onKnown(projectId || (principal.projectId ?? principal.personId));
  return principal;
}

/** The input in the schema's form; throws `bad_request` with what is wrong with it. */
function read(schema: Shape | undefined, input: unknown, where: string): unknown {
  if (!schema) return undefined;
  if (where !== "body") refuseOddTexts(input, where);
  const result = z.safeParse(schema, input);
  if (result.success) return result.data;
  const details = result.error.issues.slice(0, MAX_DETAILS).map(({ path, message }) => ({
    field: path.join(".").slice(0, MAX_FIELD_CHARS) || where,
    problem: message,
  }));
  const message = details.map(({ field, problem }) => `${field}: ${problem}`).join("; ");
  throw new AppError("bad_request", { message, details });
}

/** A body was looked at where it was read. */
function refuseOddTexts(input: unknown, where: string): void {
  for (const value of Object.values(input ?? {}).flat()) {
    if (typeof value === "string" && !isPlainText(value)) {
      throw new AppError("bad_request", { message: `${where}: contains bytes that are not valid text` });
    }
  }
}

async function refuseAll(): Promise<void> {
  throw new AppError("forbidden");
}
