import type { FastifyInstance } from "fastify";
import type { ListenerLimits } from "../config/listener-limits.ts";
import type { MetricExportSettings } from "../config/metric-export.ts";
import { bearerToken } from "../identity/principal.ts";
import { BACKLOG } from "../kit/listener.ts";
import type { Log } from "../kit/log.ts";
import { withTimeout } from "../kit/clock.ts";
import type { Others } from "../nodes/forward/app-locator.ts";
import type { PeerRoutes } from "../nodes/peer-listener.ts";
import { operatorOnly } from "./api/addresses.ts";
import { noteFromPeer } from "./api/connections.ts";
import { ManagementForwarding } from "./api/forwarding.ts";
import { createListener } from "./api/listener.ts";
import { type Authenticate, mount } from "./api/mount.ts";
import { openApiDocument } from "./api/openapi.ts";
import { Shares } from "./api/shares.ts";
import type { Sockets } from "./api/sockets.ts";
import { attachLogSockets } from "./apps/logs.ts";
import { healthRoutes } from "./installation/health.ts";
import { MetricExport } from "./metrics/metric-export.ts";
import { metricsRoutes, Scraper } from "./metrics/scrape.ts";
import { dashboardRoutes, guideRoutes } from "./installation/web-pages.ts";
import { allOperations } from "./operations.ts";
import type { ManagementParts } from "./parts.ts";

type ManagementOptions = ManagementParts & {
  readonly host: string;
  readonly port: number;
  readonly limits: ListenerLimits;
  readonly others: Others | null;
  /** Null if metrics are not exported to OpenTelemetry. */
  readonly metricExport: MetricExportSettings | null;
  readonly log: Log;
};

/** How long a stop waits for requests in progress; a large download would delay it too long. */
const CLOSE_MS = 3_000;

export class Management {
  readonly #app: FastifyInstance;
  readonly #sockets: Sockets;
  readonly #forwarding: ManagementForwarding | null;
  /** For requests that other nodes forward. */
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
  readonly #scraper: Scraper;
  #metricExport: MetricExport | null = null;
  #isReady = false;

  private constructor(options: ManagementOptions) {
    const { tokens, operators, audit, limits, clock, log, others, catalog, appHosts } = options;
    const app = createListener(log, limits, clock, appHosts);
    const authenticate: Authenticate = async (authorization) =>
      (await tokens.admit(bearerToken(authorization))).principal;
    const operations = allOperations(options);
    const requireOperator = operators.require.bind(operators);
    const forwarding = others && new ManagementForwarding({ ...others, catalog, clock });
    mount(app, operations, { authenticate, requireOperator, audit, shares: new Shares(clock), forwarding });
    addDocument(app, () => JSON.stringify(openApiDocument(operations)));
    dashboardRoutes(app, options);
    guideRoutes(app, options);
    const authorizeOperator = operatorOnly({ ...options, authenticate });
    healthRoutes(app, { ...options, authorizeOperator, isReady: () => this.#isReady });
    this.#scraper = new Scraper(options);
    metricsRoutes(app, this.#scraper, authorizeOperator);
    this.#app = app;
    this.#forwarding = forwarding;
    const { connections, pipelines } = app;
    const sockets = { authenticate, forwarding, connections, pipelines, log, clock, appHosts };
    this.#sockets = attachLogSockets(app.server, options, sockets);
  }

  static async listen(options: ManagementOptions): Promise<Management> {
    const { host, port } = options;
    const management = new Management(options);
    await management.#app.listen({ host, port, backlog: BACKLOG });
    await management.#exportMetrics(options);
    return management;
  }

  /** Nothing is exported unless an endpoint is configured. */
  async #exportMetrics({ metricExport: settings, ownNode, clock, log }: ManagementOptions): Promise<void> {
    if (!settings) return;
    const { id: nodeId } = ownNode();
    this.#metricExport = await MetricExport.open({ settings, nodeId, scraper: this.#scraper, clock, log });
  }

  get port(): number {
    return this.#app.addresses()[0]?.port ?? 0;
  }

  /** Sets what `/readyz` answers; false until the service is up, and from the moment it stops. */
  setReady(isReady: boolean): void {
    this.#isReady = isReady;
  }

  async close(): Promise<void> {
    this.#forwarding?.close();
    await this.#metricExport?.close();
    await this.#sockets.close();
    const closed = this.#app.close();
    await withTimeout(CLOSE_MS, closed);
    this.#app.server.closeAllConnections();
    await closed;
  }
}

/** Serves the OpenAPI document; it needs no token. */
function addDocument(app: FastifyInstance, describe: () => string): void {
  // Made at the first request, so that the start does not wait for it.
  let document: string | null = null;
  app.get("/openapi.json", (_, reply) => reply.type("application/json").send((document ??= describe())));
}
