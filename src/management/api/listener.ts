import { randomUUID } from "node:crypto";
import type { IncomingMessage, RequestListener, Server } from "node:http";
import type { Socket } from "node:net";
import { fastify } from "fastify";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type ListenerLimits, USUAL_LIMITS } from "../../config/listener-limits.ts";
import { type Clock, systemClock } from "../../kit/clock.ts";
import { ImmediateQueue } from "../../kit/event-loop.ts";
import { checkingInterval } from "../../kit/listener.ts";
import type { Log } from "../../kit/log.ts";
import { createServer } from "../../kit/node-http.ts";
import { AppError, errorBody, type ErrorCode, rawRefusal } from "../../model/errors.ts";
import { type Arrival, arrivalOf, readBody, readJson } from "./bodies.ts";
import { ManagementConnections, type Sender } from "./connections.ts";
import { Pipelines, refuseAppHost } from "./pipelines.ts";

/** `names`: a literal name, `:id` for any, or `*` for the rest. Of several that fit, the lowest `rank` applies. */
type KnownPath = { readonly names: readonly string[]; readonly rank: string; methods: readonly string[] };

/**
 * The paths of a listener with the methods that each takes, for the answer to any other method. The router itself
 * could hold a route for each of those, but six times as many routes were a tenth of a service's start.
 */
export class KnownPaths {
  readonly #known = new Map<string, KnownPath>();

  add(path: string, methods: readonly string[]): void {
    const names = path.split("/");
    const rank = names.map((name) => (name === "*" ? 2 : name.startsWith(":") ? 1 : 0)).join("");
    const before = this.#known.get(path)?.methods ?? [];
    this.#known.set(path, { names, rank, methods: [...before, ...methods] });
  }

  /** The methods of the request target's path; null for an unknown path. */
  methodsAt(target: string): readonly string[] | null {
    const [path = ""] = target.split(/[?#]/, 1);
    try {
      const parts = decodeURI(path).split("/");
      const fitting = [...this.#known.values()].filter(({ names }) => fits(names, parts));
      return fitting.toSorted((a, b) => (a.rank < b.rank ? -1 : 1))[0]?.methods ?? null;
    } catch {
      return null; // It cannot be decoded.
    }
  }
}

function fits(names: readonly string[], parts: readonly string[]): boolean {
  if (names.at(-1) === "*" ? parts.length < names.length : parts.length !== names.length) return false;
  return names.every((name, at) => name === "*" || name.startsWith(":") || name === parts[at]);
}

declare module "fastify" {
  interface FastifyContextConfig {
    takesForm?: boolean;
    maxBodyBytes?: number | undefined;
    maxValues?: number | undefined;
    /** Keeps the raw body too. */
    keepsBytes?: boolean;
  }
  interface FastifyInstance {
    connections: ManagementConnections;
    pipelines: Pipelines;
  }
  interface FastifyRequest {
    sender: Sender | null;
    arrival: Arrival | null;
    bytes: Buffer | null;
  }
}

/** For requests without a token. */
const STRANGERS_BYTES = 16 * 1024;
const STRANGERS_VALUES = 100;
/** Of one part of a path; longer than any valid one. */
const MAX_PARAM_CHARS = 500;

const FASTIFY_ERRORS: Record<string, ErrorCode> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "unsupported_media_type",
  FST_ERR_MAX_PARAM_LENGTH: "not_found",
};

const TIMED_OUT = "ERR_HTTP_REQUEST_TIMEOUT";

/** Our codes for Node's errors before there is a request. */
const CONNECTION_ERRORS: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "body_too_large",
  [TIMED_OUT]: "request_timeout",
};

/** A listener with our form of error also for malformed requests; hosts below `appHosts` get 421. */
export function createListener(
  log: Log,
  limits: ListenerLimits = USUAL_LIMITS,
  clock: Clock = systemClock,
  appHosts: string | null = null,
): FastifyInstance {
  const pipelines = new Pipelines();
  // Many connections may time out at once.
  const late = new ImmediateQueue();
  const connections = new ManagementConnections(limits, clock, (socket, error) =>
    pipelines.afterOthers(socket, () => {
      refuseConnection(error, socket);
      socket.destroySoon();
    }),
  );
  const app = fastify({
    serverFactory: (handler) => createHttpServer(handler, limits, { connections, pipelines }),
    genReqId: () => randomUUID(),
    logger: false,
    routerOptions: { maxParamLength: MAX_PARAM_CHARS },
    frameworkErrors: (error, request, reply) => {
      addHeaders(reply, request.id);
      sendError(reply, request.id, ourError(error) ?? new AppError("internal"));
    },
    clientErrorHandler: (error, socket) => {
      const refuse = (): void => pipelines.afterOthers(socket, () => refuseConnection(error, socket));
      if (error.code === TIMED_OUT) late.add(refuse);
      else refuse();
    },
  });
  const knownPaths = new KnownPaths();
  app.decorate("connections", connections);
  app.decorate("pipelines", pipelines);
  app.decorateRequest("sender", null);
  app.decorateRequest("arrival", null);
  app.decorateRequest("bytes", null);
  app.addHook("onRoute", ({ url, method }) => {
    // Fastify adds HEAD wherever there is a GET.
    if (method !== "HEAD") knownPaths.add(url, [method].flat());
  });
  app.addHook("onRequest", async (request, reply) => {
    addHeaders(reply, request.id);
    pipelines.check(request.raw);
    refuseAppHost(request.raw, appHosts);
    request.arrival = arrivalOf(request.raw, reply.raw, { clock, timeoutMs: limits.bodyTimeoutMs });
    request.sender = connections.receive(request.raw, reply.raw);
    // Before its body is read.
    if (request.is404) throw notFound(knownPaths.methodsAt(request.raw.url ?? ""));
  });
  app.addHook("onResponse", async ({ raw }) => {
    if (!raw.complete) connections.readRest(raw);
  });
  // Fastify's own parser refuses an empty body of that type, on every method.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", async (request: FastifyRequest) => {
    const { headers, routeOptions } = request;
    const bytes = await bytesOf(request);
    if (routeOptions.config.keepsBytes) request.bytes = bytes;
    return readJson(bytes, headers, routeOptions.config.maxValues ?? STRANGERS_VALUES);
  });
  app.addContentTypeParser("application/x-www-form-urlencoded", async (request: FastifyRequest) => {
    // Browsers send forms to other sites without CORS, so only operations for forms accept them.
    if (!request.routeOptions.config.takesForm) throw new AppError("unsupported_media_type");
    return Object.fromEntries(new URLSearchParams((await bytesOf(request)).toString()));
  });
  app.setNotFoundHandler((request, reply) => sendError(reply, request.id, new AppError("not_found")));
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const known = ourError(error);
    if (!known) log.error({ err: error, requestId: request.id }, "a request failed with an internal error");
    return sendError(reply, request.id, known ?? new AppError("internal"));
  });
  return app;
}

/** Why a request has no route: its path has none, or only for these methods. */
function notFound(methods: readonly string[] | null): AppError {
  if (!methods) return new AppError("not_found");
  const allowed = methods.includes("GET") ? [...methods, "HEAD"] : methods;
  return new AppError("method_not_allowed", { headers: { allow: allowed.join(", ") } });
}

async function bytesOf({ raw, arrival, routeOptions }: FastifyRequest): Promise<Buffer> {
  if (!arrival) throw new Error("a body was read before its request was received");
  const { maxBodyBytes = STRANGERS_BYTES } = routeOptions.config;
  return await readBody(raw, maxBodyBytes, arrival);
}

/** The error as a client may see it; null for our own faults. */
function ourError(error: FastifyError | AppError): AppError | null {
  if (error instanceof AppError) return error;
  if ((error.statusCode ?? 500) >= 500) return null;
  return new AppError(FASTIFY_ERRORS[error.code] ?? "bad_request");
}

/**
 * Body timeouts depend on the route: an upload may take hours. We check heads ourselves, because Node's own answers are not
 * JSON and have no request id, and its header limit drops headers silently.
 */
function createHttpServer(
  handler: RequestListener,
  { headerTimeoutMs, idleTimeoutMs }: ListenerLimits,
  { connections, pipelines }: { readonly connections: ManagementConnections; readonly pipelines: Pipelines },
): Server {
  const options = {
    headersTimeout: headerTimeoutMs,
    requestTimeout: 0,
    keepAliveTimeout: idleTimeoutMs,
    connectionsCheckingInterval: checkingInterval(headerTimeoutMs),
    requireHostHeader: false,
  };
  const server = createServer(options, (request, response) => {
    if (pipelines.take(request, response)) handler(request, response);
  });
  server.maxHeadersCount = 0;
  // `100 Continue` is sent after the checks that do not need the body.
  server.on("checkContinue", (request, response) => server.emit("request", request, response));
  server.on("checkExpectation", (request: IncomingMessage, response) => {
    pipelines.noteUnmet(request);
    server.emit("request", request, response);
  });
  connections.watch(server);
  return server;
}

function addHeaders(reply: FastifyReply, requestId: string): void {
  reply.header("x-request-id", requestId).header("x-content-type-options", "nosniff");
}

function sendError(reply: FastifyReply, requestId: string, error: AppError): FastifyReply {
  const headers = error.detail.headers ?? (error.status === 503 ? { "retry-after": "1" } : {});
  // The rest of the body is still to come.
  if (error.code === "request_timeout") reply.header("connection", "close");
  return reply.code(error.status).headers(headers).type("application/json").send(errorBody(error, requestId));
}

function refuseConnection(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const known =
    error instanceof AppError ? error : new AppError(CONNECTION_ERRORS[error.code ?? ""] ?? "bad_request");
  socket.end(rawRefusal(known, randomUUID()));
}
