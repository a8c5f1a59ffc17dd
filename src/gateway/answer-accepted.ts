import { appUrl } from "./app-url.ts";
import type { Exchange } from "./exchange.ts";
import type { AppRoute } from "./route.ts";

const NO_HEADERS: Readonly<Record<string, string>> = {};

/** The answer to a call whose run nobody waits for: 202, and where the run is found. */
export function answerAccepted(
  exchange: Exchange,
  route: AppRoute,
  publicApiUrl: string | null,
  runId: string,
  headers = NO_HEADERS,
): void {
  const location = `${appUrl(exchange, route, publicApiUrl)}/runs/${runId}`;
  exchange.answerJson(202, { run_id: runId }, { location, ...headers });
}
