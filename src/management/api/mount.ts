import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Audit } from "../../identity/audit.ts";
import { requireMoreThanCalls, requirePerson, requireRole, subjectOf } from "../../identity/principal.ts";
import type { Principal } from "../../identity/principal.ts";
import { addressKey } from "../../kit/ip-addresses.ts";
import { AppError } from "../../model/errors.ts";
import type { AppKey } from "../../nodes/forward/app-locator.ts";
import type { Shape } from "../../shapes/shape.ts";
import { isPlainText } from "./bodies.ts";
import { fromPeer } from "./connections.ts";
import type { ManagementForwarding } from "./forwarding.ts";
import { nameIn } from "./inputs.ts";
import type { Call, Operation } from "./operation.ts";
import { type Lane, type Payers, Shares, type Turn } from "./shares.ts";

const MAX_BODY_BYTES = 64 * 1024;
const MAX_VALUES = 2_000;
/** How often a request is tried here if its app moves away and back. */
const MAX_TRIES = 5;
/** How many problems of one body are reported. */
const MAX_DETAILS = 20;
const MAX_FIELD_CHARS = 200;

/** Returns the sender of a request; throws `unauthorized`. */
export type Authenticate = (authorization: string | null) => Promise<Principal>;

type MountParts = {
  readonly authenticate: Authenticate;
  /** Throws `forbidden` if the principal is not the operator; without it, no principal is. */
  readonly requireOperator?: (principal: Principal) => Promise<void>;
  readonly audit: Pick<Audit, "record">;
  readonly shares?: Shares;
  /** Null for a service that is alone. */
  readonly forwarding?: ManagementForwarding | null;
};

/** Serves operations. The token is checked before a byte of the body is read, then the input. */
export function mount(app: FastifyInstance, operations: readonly Operation[], given: MountParts): void {
  const parts = { requireOperator: refuseAll, shares: new Shares(), forwarding: null, ...given };
  for (const operation of operations) if (!operation.takesBytes) addRoute(app, operation, parts);
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // The handler reads the request itself, whatever its content type.
    scope.addContentTypeParser("*", async () => undefined);
    for (const operation of operations) if (operation.takesBytes) addRoute(scope, operation, parts);
  });
}

function addRoute(app: FastifyInstance, operation: Operation, parts: Required<MountParts>): void {
  const { shares, forwarding, audit } = parts;
  const admitted = new WeakMap<FastifyRequest, { readonly principal: Principal; readonly turn: Turn }>();
  const forward = async (request: FastifyRequest, reply: FastifyReply, to: AppKey): Promise<boolean> =>
    (await forwarding?.forward(request, reply, to, request.bytes ?? undefined)) ?? false;
  app.route({
    method: operation.method,
    url: operation.path.replaceAll(/\{(\w+)\}/g, ":$1"),
    config: configOf(operation),
    onRequest: async (request, reply) => {
      const principal = await admit(operation, request, parts);
      // After the token was checked: only a valid token makes the service look for an app.
      const app = forwarding && (await appOf(operation, request));
      if (app && (await forward(request, reply, app))) return;
      if (fromPeer(request.raw)?.isHeld) reply.raw.writeContinue();
      if (!principal) return;
      const turn = await shares.take(reply, laneOf(operation, request), payersOf(principal, request));
      admitted.set(request, { principal, turn });
    },
    handler: async (request, reply) => {
      const params = read(operation.params, request.params, "path");
      const query = read(operation.query, request.query, "query");
      const body = read(operation.body, request.body, "body");
      const app = operation.appOfBody?.(params, body);
      if (app && (await forward(request, reply, app))) return reply;
      const { id: requestId } = request;
      const { ip } = request.sender ?? request;
      const { principal = null, turn: ownTurn } = admitted.get(request) ?? {};
      // Without a token the turn starts after the body: a slow sender must not block others at the same address.
      const turn =
        ownTurn ?? (await shares.take(reply, laneOf(operation, request), { address: addressKey(ip) }));
      const { project_id: projectId = null } = params as { project_id?: string };
      const record: Call["record"] = async (action, target, change) => {
        const known = { projectId, action, target, before: null, after: null };
        await audit.record({ ...known, ...change, principal, ip, requestId });
      };
      const call: Call = { params, projectId, query, body, principal, ip, reply, record };
      for (let tries = 1; ; tries += 1) {
        try {
          return await turn(() => operation.handle(call));
        } catch (error) {
          const moved = isUnsent(error, request) ? (app ?? (await appOf(operation, request))) : null;
          if (!moved || tries === MAX_TRIES) throw error;
          if (await forward(request, reply, moved)) return reply;
          await forwarding?.pause();
        }
      }
    },
  });
}

/** Whether the app has just moved and the request can still be forwarded: its body is in memory, or has not been read. */
function isUnsent(error: unknown, { bytes, raw }: FastifyRequest): boolean {
  const isMoved = error instanceof AppError && error.code === "app_moved";
  return isMoved && (Boolean(bytes) || !raw.readableDidRead);
}

/** The app that a request is about, as far as it is known before the body is read. */
async function appOf(operation: Operation, { params, query }: FastifyRequest): Promise<AppKey | null> {
  const { project_id: projectId = "", app_id: id } = params as { project_id?: string; app_id?: string };
  if (id !== undefined) {
    const appName = nameIn(projectId, id);
    return appName === null ? null : { projectId, appName };
  }
  if (!operation.appOfQuery) return null;
  const given = read(operation.params, params, "path");
  return await operation.appOfQuery(given, read(operation.query, query, "query"));
}

/** Requests with a token may have larger bodies. */
function configOf(operation: Operation): FastifyContextConfig {
  const { access, takesForm = false, ...limits } = operation;
  const { maxBodyBytes = access === null ? undefined : MAX_BODY_BYTES } = limits;
  const { maxValues = access === null ? undefined : MAX_VALUES } = limits;
  // If the app moves while they are read, they are sent to the other node.
  const keepsBytes = "appOfBody" in operation || operation.path.includes("{app_id}");
  return { takesForm, maxBodyBytes, maxValues, keepsBytes };
}

function laneOf(operation: Operation, request: FastifyRequest): Lane {
  const { takesBytes, givesBytes, givesLines } = operation;
  if (takesBytes || givesBytes || givesLines) return "transfer";
  return operation.isHeavy?.(read(operation.query, request.query, "query")) ? "heavy" : "quick";
}

function payersOf(principal: Principal, { params }: FastifyRequest): Payers {
  const { project_id: inPath } = params as { project_id?: string };
  return { token: subjectOf(principal), project: inPath ?? principal.projectId };
}

async function admit(
  { access }: Operation,
  { headers, params, sender }: FastifyRequest,
  { authenticate, requireOperator }: Required<MountParts>,
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

/** Parses the input; throws `bad_request` with what is wrong with it. */
function read<Input>(schema: Shape<Input> | undefined, input: unknown, where: string): Input {
  if (!schema) return undefined as Input;
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

/** For paths and queries; bodies are checked when they are read. */
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
