import { randomUUID } from "node:crypto";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { fastify } from "fastify";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Log } from "../../kit/log.ts";
import { AppError, errorBody } from "../../model/errors.ts";
import type { ErrorCode } from "../../model/errors.ts";
import { readJson } from "./json-body.ts";

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
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/** A listener whose answers are ours in every case: request id, one form of error, no body where there is none. */
export function createListener(log: Log): FastifyInstance {
  const app = fastify({
    genReqId: () => randomUUID(),
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    routerOptions: { maxParamLength: MAX_PARAM_CHARS },
    frameworkErrors: (error, request, reply) => {
      addHeaders(reply, request.id);
      sendError(reply, request.id, ourError(error) ?? new AppError("internal"));
    },
    clientErrorHandler: (error, socket) => refuseConnection(error, socket),
  });
  app.addHook("onRequest", async (request, reply) => {
    addHeaders(reply, request.id);
    // Links are made of it.
    if (!URL.canParse(`http://${request.host}/`)) {
      throw new AppError("bad_request", { message: "The Host header is no host." });
    }
  });
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
  const known = new AppError(CONNECTION_ERRORS[error.code ?? ""] ?? "bad_request");
  const requestId = randomUUID();
  const body = errorBody(known, requestId);
  const head = [
    `HTTP/1.1 ${known.status} ${STATUS_CODES[known.status]}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}
