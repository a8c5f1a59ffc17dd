import type { FastifyInstance } from "fastify";
import { bearerToken } from "../identity/bearer.ts";
import type { Tokens } from "../identity/tokens.ts";
import type { Log } from "../kit/log.ts";
import { withTimeout } from "../kit/clock.ts";
import type { ListenerLimits } from "../config/listener-limits.ts";
import type { Clock } from "../kit/clock.ts";
import { BACKLOG } from "../kit/listener.ts";
import { createListener } from "./api/listener.ts";
import { mount, refuseOthers } from "./api/mount.ts";
import type { Authenticate, RequireOperator } from "./api/mount.ts";
import { openApiDocument } from "./api/openapi.ts";
import { Shares } from "./api/shares.ts";
import { dashboardRoutes } from "./dashboard.ts";
import type { DashboardParts } from "./dashboard.ts";
import { guideRoutes } from "./guide.ts";
import type { GuideParts } from "./guide.ts";
import { healthRoutes } from "./health.ts";
import type { HealthParts } from "./health.ts";
import { attachLogSockets } from "./log-sockets.ts";
import { metricsRoutes } from "./metrics.ts";
import type { MetricsParts } from "./metrics.ts";
import { allOperations } from "./operations.ts";
import type { OperationParts } from "./operations.ts";
import { operatorOnly } from "./operator.ts";
import type { OperatorParts } from "./operator.ts";
import type { Sockets } from "./sockets.ts";
import type { Others } from "../nodes/forward/app-locator.ts";
import type { PeerRoutes } from "../nodes/peer-listener.ts";
import { noteFromPeer } from "./api/from-peer.ts";
import { ManagementPassing } from "./api/passing.ts";

export type ManagementOptions = OperationParts &
  DashboardParts &
  GuideParts &
  Omit<MetricsParts & HealthParts & OperatorParts, "authorizeOperator" | "authenticate" | "isReady"> & {
    readonly host: string;
    readonly port: number;
    readonly tokens: Tokens;
    readonly limits: ListenerLimits;
    readonly clock: Clock;
    /** The other nodes; null for a service alone. */
    readonly others?: Others | null;
    readonly log: Log;
  };

/** How long a stop waits for requests under way; a large download would hold it up for ever. */
const CLOSE_MS = 3_000;

/** The management API at `{base_url}`. */
export class Management {
  readonly #app: FastifyInstance;
  readonly #sockets: Sockets;
  readonly #passing: ManagementPassing | null;
  /** What other nodes pass on. */
  readonly peerRoutes: Pick<PeerRoutes, "management" | "managementUpgrade"> = {
    management: (request, response, from) => {
      noteFromPeer(request, from);
      this.#app.server.emit("request", request, response);
    },
    managementUpgrade: (request, socket, first, from) => {
      noteFromPeer(request, from);
      this.#app.server.emit("upgrade", request, socket, first);
    },
  };
  #isReady = false;

  private constructor(options: ManagementOptions) {
    const { tokens, limits, clock, log, others = null, catalog, appHosts } = options;
    const app = createListener(log, limits, clock, appHosts);
    const authenticate: Authenticate = async (authorization) =>
      (await tokens.admit(bearerToken(authorization))).principal;
    const operations = allOperations(options);
    const requireOperator: RequireOperator = (principal) => options.operators.require(principal);
    const passing = others && new ManagementPassing({ ...others, catalog, clock });
    mount(app, operations, authenticate, requireOperator, new Shares(clock), passing);
    addDocument(app, () => JSON.stringify(openApiDocument(operations)));
    dashboardRoutes(app, options);
    guideRoutes(app, options);
    const authorizeOperator = operatorOnly({ ...options, authenticate });
    healthRoutes(app, { ...options, authorizeOperator, isReady: () => this.#isReady });
    metricsRoutes(app, { ...options, authorizeOperator });
    this.#app = app;
    this.#passing = passing;
    this.#sockets = attachLogSockets(app.server, {
      ...options,
      authenticate,
      passing,
      connections: app.connections,
      pipelines: app.pipelines,
    });
  }

  static async listen(options: ManagementOptions): Promise<Management> {
    const { host, port } = options;
    const management = new Management(options);
    await management.#app.listen({ host, port, backlog: BACKLOG });
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
    this.#passing?.close();
    await this.#sockets.close();
    const closed = this.#app.close();
    await withTimeout(CLOSE_MS, closed);
    this.#app.server.closeAllConnections();
    await closed;
  }
}

/** The OpenAPI document; it needs no token. */
function addDocument(app: FastifyInstance, describe: () => string): void {
  // Few ask, and no start shall wait for it.
  let document: string | null = null;
  app.get("/openapi.json", (_, reply) => reply.type("application/json").send((document ??= describe())));
  refuseOthers(app, "/openapi.json", ["GET"]);
}
