import type { RequestHead } from "./request-head.ts";
import type { AppRoute, CallRoute, RunQuery } from "./route.ts";
import type { AppError } from "../model/errors.ts";
import type { LiveApp } from "../apps/catalog.ts";
import type { RememberedToken } from "../identity/tokens.ts";
import type { Exchange } from "./exchange.ts";

/** The part of an exchange that determines the app's address. */
type Place = { readonly isOnAppHost: boolean; readonly head: Pick<RequestHead, "host"> | null };

/** The path prefix of an app; empty on its own host. */
export function appPath(
  { isOnAppHost }: Pick<Place, "isOnAppHost">,
  { projectId, appName }: AppRoute,
): string {
  return isOnAppHost ? "" : `/v4/${projectId}/${appName}`;
}

/** The URL of an app as its caller sees it: on its own host, else by the public URL, else by the Host header. */
export function appUrl(place: Place, route: AppRoute, publicApiUrl: string | null): string {
  const host = place.head?.host ?? null;
  // The public URL tells whether there is TLS in front.
  if (place.isOnAppHost) return `${publicApiUrl?.startsWith("https:") ? "https:" : "http:"}//${host}`;
  // HTTP/1.0 may come without a Host; then the path has to do.
  const apiUrl = publicApiUrl ?? (host === null ? "" : `http://${host}`);
  return apiUrl + appPath(place, route);
}

/** What to tell who calls an app that takes no calls. */
export type WhyAbsent = (key: { readonly projectId: string; readonly name: string }) => Promise<AppError>;

/** A call that has passed every check but those of its arguments. */
export type CheckedCall = {
  readonly exchange: Exchange;
  readonly head: RequestHead;
  readonly route: CallRoute;
  readonly live: LiveApp;
  readonly query: RunQuery;
  /** Null on a public app, where nobody showed one. */
  readonly token: RememberedToken | null;
};

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
