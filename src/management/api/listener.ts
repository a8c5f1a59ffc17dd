import { randomUUID } from "node:crypto";
import { STATUS_CODES } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import { fastify } from "fastify";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Log } from "../../kit/log.ts";
import { AppError, errorBody } from "../../model/errors.ts";
import type { ErrorCode } from "../../model/errors.ts";
import { readJson } from "./json-body.ts";
import { Pipelines } from "./pipeline.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    takesForm?: boolean;
  }
}

const MAX_BODY_BYTES = 4 * 1024 * 1024;
/** Of one part of a path; longer than any that names something. */
const MAX_PARAM_CHARS = 500;

/** Fastify's own complaints, in our words. */
const FASTIFY_ERRORS: Record<string, ErrorCode> = {
  FST_ERR_CTP_BODY_TOO_LARGE: "body_too_large",
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "unsupported_media_type",
  FST_ERR_MAX_PARAM_LENGTH: "not_found",
};

/** Node's, about what came before there was a request. */
const CONNECTION_ERRORS: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "body_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/** A listener whose answers are ours in every case: request id, one form of error, no body where there is none. */
export function createListener(log: Log): FastifyInstance {
  const pipelines = new Pipelines();
  const app = fastify({
    genReqId: () => randomUUID(),
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    routerOptions: { maxParamLength: MAX_PARAM_CHARS },
    frameworkErrors: (error, request, reply) => {
      addHeaders(reply, request.id);
      sendError(reply, request.id, ourError(error) ?? new AppError("internal"));
    },
    clientErrorHandler: (error, socket) =>
      pipelines.afterOthers(socket, () => refuseConnection(error, socket)),
  });
  app.addHook("onRequest", async (request, reply) => {
    addHeaders(reply, request.id);
    pipelines.enter(request.raw, reply.raw);
  });
  leaveHeadsToUs(app.server);
  // Fastify's own parser refuses an empty body of that type, on every method.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    "application/json",
    { parseAs: "buffer" },
    async ({ headers }: FastifyRequest, bytes: Buffer) => readJson(bytes, headers),
  );
  app.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "string" },
    async ({ routeOptions }: FastifyRequest, text: string) => {
      // Browsers send forms to other sites unasked, so only what is made for forms takes them.
      if (!routeOptions.config.takesForm) throw new AppError("unsupported_media_type");
      return Object.fromEntries(new URLSearchParams(text));
    },
  );
  app.setNotFoundHandler((request, reply) => sendError(reply, request.id, new AppError("not_found")));
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const known = ourError(error);
    if (!known) log.error({ err: error, requestId: request.id }, "a request failed on an error of ours");
    return sendError(reply, request.id, known ?? new AppError("internal"));
  });
  return app;
}

/** What a caller may learn of an error; null when that is nothing. */
function ourError(error: FastifyError | AppError): AppError | null {
  if (error instanceof AppError) return error;
  if ((error.statusCode ?? 500) >= 500) return null;
  return new AppError(FASTIFY_ERRORS[error.code] ?? "bad_request");
}

/** Node's own answers would be no JSON and carry no request id, and its limit drops headers without a word. */
function leaveHeadsToUs(server: Server): void {
  Object.assign(server, { requireHostHeader: false, maxHeadersCount: 0 });
  server.on("checkExpectation", (request: IncomingMessage) => {
    request.socket.end(rawAnswer(new AppError("expectation_failed")));
  });
}

function addHeaders(reply: FastifyReply, requestId: string): void {
  reply.header("x-request-id", requestId).header("x-content-type-options", "nosniff");
}

function sendError(reply: FastifyReply, requestId: string, error: AppError): FastifyReply {
  const headers = error.detail.headers ?? (error.status === 503 ? { "retry-after": "1" } : {});
  return reply.code(error.status).headers(headers).type("application/json").send(errorBody(error, requestId));
}

function refuseConnection(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(rawAnswer(new AppError(CONNECTION_ERRORS[error.code ?? ""] ?? "bad_request")));
}

/** The last answer on a connection, for what was no request. */
function rawAnswer(error: AppError): string {
  const requestId = randomUUID();
  const body = errorBody(error, requestId);
  const head = [
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    "connection: close",
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}
