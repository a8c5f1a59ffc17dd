import { randomUUID } from "node:crypto";
import { fastify } from "fastify";
import type { FastifyError, FastifyInstance, FastifyReply } from "fastify";
import type { Log } from "../../kit/log.ts";
import { AppError, errorBody } from "../../model/errors.ts";
import type { ErrorCode } from "../../model/errors.ts";

const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** Fastify's own complaints, in our words. */
const FASTIFY_ERRORS: Record<string, ErrorCode> = {
  FST_ERR_CTP_BODY_TOO_LARGE: "body_too_large",
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "unsupported_media_type",
  FST_ERR_CTP_INVALID_JSON_BODY: "invalid_json",
};

/** A listener whose answers are ours in every case: request id, one form of error, no body where there is none. */
export function createListener(log: Log): FastifyInstance {
  const app = fastify({ genReqId: () => randomUUID(), logger: false, bodyLimit: MAX_BODY_BYTES });
  app.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id);
  });
  // Fastify's own parser refuses an empty body of that type, on every method.
  app.removeContentTypeParser("application/json");
  app.addContentTypeParser("application/json", { parseAs: "string" }, (_, text, done) => {
    try {
      done(null, text === "" ? undefined : JSON.parse(text as string));
    } catch {
      done(new AppError("invalid_json"), undefined);
    }
  });
  app.setNotFoundHandler((request, reply) => sendError(reply, request.id, new AppError("not_found")));
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (error instanceof AppError) return sendError(reply, request.id, error);
    const code = FASTIFY_ERRORS[error.code] ?? "bad_request";
    if ((error.statusCode ?? 500) < 500) return sendError(reply, request.id, new AppError(code));
    log.error({ err: error, requestId: request.id }, "a request failed on an error of ours");
    return sendError(reply, request.id, new AppError("internal"));
  });
  return app;
}

function sendError(reply: FastifyReply, requestId: string, error: AppError): FastifyReply {
  const headers = error.detail.headers ?? (error.status === 503 ? { "retry-after": "1" } : {});
  return reply.code(error.status).headers(headers).type("application/json").send(errorBody(error, requestId));
}
