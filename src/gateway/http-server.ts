import type { IncomingMessage, Server } from "node:http";
import { checkingInterval } from "../kit/listener/listening.ts";
import { createServer } from "../kit/node-http.ts";

/** How long headers and the whole request may take to arrive, and how long a connection may be idle. */
export type ArrivalLimits = {
  readonly headerTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly idleTimeoutMs: number;
};

const MAX_HEADER_BYTES = 16 * 1024;

/** Node's HTTP server with the gateway's limits. `readHead` checks heads, because Node's own error answers are not JSON. */
export function createHttpServer(
  { headerTimeoutMs, bodyTimeoutMs, idleTimeoutMs }: ArrivalLimits,
  mayUpgrade: (request: IncomingMessage) => boolean,
): Server {
  // Node requires headersTimeout <= requestTimeout.
  const headersTimeout = Math.min(headerTimeoutMs, bodyTimeoutMs);
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout,
    requestTimeout: bodyTimeoutMs,
    keepAliveTimeout: idleTimeoutMs,
    connectionsCheckingInterval: checkingInterval(headersTimeout),
    requireHostHeader: false,
    shouldUpgradeCallback: mayUpgrade,
    noDelay: true,
  });
  // `readHead` counts them; Node would drop further headers silently.
  server.maxHeadersCount = 0;
  return server;
}
