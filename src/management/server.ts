import type { FastifyInstance, FastifyRequest } from "fastify";
import { bearerToken } from "../identity/bearer.ts";
import { requireRole } from "../identity/principal.ts";
import type { Principal, Role } from "../identity/principal.ts";
import type { Tokens } from "../identity/tokens.ts";
import type { Log } from "../kit/log.ts";
import type { Store } from "../store/store.ts";
import { createListener } from "./api/listener.ts";
import { addWebhookRoutes } from "./deliveries.ts";
import type { WebhookParts } from "./deliveries.ts";

export type ManagementOptions = Omit<WebhookParts, "authorize"> & {
  readonly host: string;
  readonly port: number;
  readonly tokens: Tokens;
  readonly log: Log;
};

/** The management API at `{base_url}`. */
export class Management {
  readonly #app: FastifyInstance;
  #isReady = false;

  private constructor(app: FastifyInstance) {
    this.#app = app;
  }

  static async listen(options: ManagementOptions): Promise<Management> {
    const { host, port, store, tokens, log } = options;
    const app = createListener(log);
    const management = new Management(app);
    app.get("/livez", () => ({ status: "ok" }));
    app.get("/readyz", async (_, reply) => {
      const problem = await management.#problem(store);
      return reply.code(problem ? 503 : 200).send(problem ? { status: problem } : { status: "ok" });
    });
    const authenticate = async (authorization: string | null): Promise<Principal> =>
      (await tokens.admit(bearerToken(authorization))).principal;
    const authorize = async (request: FastifyRequest, projectId: string, role: Role): Promise<void> =>
      requireRole(await authenticate(request.headers.authorization ?? null), projectId, role);
    addWebhookRoutes(app, { ...options, authorize });
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
