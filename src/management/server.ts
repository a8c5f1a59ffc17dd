import type { FastifyInstance } from "fastify";
import { bearerToken } from "../identity/bearer.ts";
import type { Tokens } from "../identity/tokens.ts";
import type { Log } from "../kit/log.ts";
import { within } from "../kit/within.ts";
import type { Store } from "../store/store.ts";
import { createListener } from "./api/listener.ts";
import { mount, refuseOthers } from "./api/mount.ts";
import type { Authenticate } from "./api/mount.ts";
import { openApiDocument } from "./api/openapi.ts";
import { DOCS_PAGE, DOCS_POLICY } from "./docs-page.ts";
import { attachLogSockets } from "./log-sockets.ts";
import { allOperations } from "./operations.ts";
import type { OperationParts } from "./operations.ts";
import type { Sockets } from "./sockets.ts";

export type ManagementOptions = OperationParts & {
  readonly host: string;
  readonly port: number;
  readonly tokens: Tokens;
  readonly log: Log;
};

/** How long a stop waits for requests under way; a large download would hold it up for ever. */
const CLOSE_MS = 3_000;

/** The management API at `{base_url}`. */
export class Management {
  readonly #app: FastifyInstance;
  readonly #sockets: Sockets;
  #isReady = false;

  private constructor(options: ManagementOptions) {
    const { store, tokens, log } = options;
    const app = createListener(log);
    const authenticate: Authenticate = async (authorization) =>
      (await tokens.admit(bearerToken(authorization))).principal;
    const operations = allOperations(options);
    mount(app, operations, authenticate);
    const document = JSON.stringify(openApiDocument(operations));
    this.#addPages(store, document, app);
    this.#app = app;
    this.#sockets = attachLogSockets(app.server, { ...options, authenticate });
  }

  static async listen(options: ManagementOptions): Promise<Management> {
    const { host, port } = options;
    const management = new Management(options);
    await management.#app.listen({ host, port });
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
    await this.#sockets.close();
    const closed = this.#app.close();
    await within(CLOSE_MS, closed);
    this.#app.server.closeAllConnections();
    await closed;
  }

  /** What is no operation: no token, no input, and not in the document. */
  #addPages(store: Store, document: string, app: FastifyInstance): void {
    app.get("/livez", () => ({ status: "ok" }));
    app.get("/readyz", async (_, reply) => {
      const problem = await this.#problem(store);
      return reply.code(problem ? 503 : 200).send(problem ? { status: problem } : { status: "ok" });
    });
    app.get("/openapi.json", (_, reply) => reply.type("application/json").send(document));
    app.get("/docs", (_, reply) =>
      reply
        .header("content-security-policy", DOCS_POLICY)
        .header("x-frame-options", "DENY")
        .type("text/html; charset=utf-8")
        .send(DOCS_PAGE),
    );
    for (const path of ["/livez", "/readyz", "/openapi.json", "/docs"]) refuseOthers(app, path, ["GET"]);
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
