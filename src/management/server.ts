import { randomUUID } from "node:crypto";
import { fastify } from "fastify";
import type { FastifyInstance } from "fastify";
import type { Log } from "../kit/log.ts";
import { AppError, errorBody } from "../model/errors.ts";
import type { Store } from "../store/store.ts";

export type ManagementOptions = {
  readonly host: string;
  readonly port: number;
  readonly store: Store;
  readonly log: Log;
};

/** The management API at `{base_url}`. */
export class Management {
  readonly #app: FastifyInstance;
  #isReady = false;

  private constructor(app: FastifyInstance) {
    this.#app = app;
  }

  static async listen({ host, port, store, log }: ManagementOptions): Promise<Management> {
    const app = fastify({ genReqId: () => randomUUID(), logger: false });
    const management = new Management(app);
    app.addHook("onRequest", async (request, reply) => {
      reply.header("x-request-id", request.id);
    });
    app.setNotFoundHandler((request, reply) => sendError(reply, request.id, new AppError("not_found")));
    app.setErrorHandler((error, request, reply) => {
      if (error instanceof AppError) return sendError(reply, request.id, error);
      log.error({ err: error, requestId: request.id }, "a request failed on an error of ours");
      return sendError(reply, request.id, new AppError("internal"));
    });
    app.get("/livez", () => ({ status: "ok" }));
    app.get("/readyz", async (_, reply) => {
      const problem = await management.#problem(store);
      return reply.code(problem ? 503 : 200).send(problem ? { status: problem } : { status: "ok" });
    });
    await app.listen({ host, port });
    return management;
  }

  get port(): number {
    return this.#app.addresses()[0]?.port ?? 0;
  }

  /** What `/readyz` says; it is false until the service is up and again from the moment it stops. */
  setReady(isReady: boolean): void {
    this.#isReady = isReady;
  }

  async close(): Promise<void> {
    await this.#app.close();
  }

  async #problem(store: Store): Promise<string | null> {
    if (!this.#isReady) return "starting or stopping";
    try {
      await store.meta.get("instance_id");
      return null;
    } catch {
      return "the database does not answer";
    }
  }
}

type Reply = {
  code(status: number): Reply;
  headers(headers: Record<string, string>): Reply;
  type(type: string): Reply;
  send(body: string): unknown;
};

function sendError(reply: Reply, requestId: string, error: AppError): unknown {
  const body = errorBody(error, requestId);
  return reply
    .code(error.status)
    .headers(error.detail.headers ?? {})
    .type("application/json")
    .send(body);
}
