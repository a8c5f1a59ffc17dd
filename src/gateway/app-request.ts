import type { Catalog, LiveApp } from "../apps/catalog.ts";
import type { RememberedToken } from "../identity/tokens.ts";
import type { Authenticator } from "./authenticate.ts";
import type { Connection } from "./connection.ts";
import type { Exchange } from "./exchange.ts";
import { type RequestHead, tracestateOf } from "./request-head.ts";
import type { AppRoute, CallRoute, RunQuery } from "./route.ts";
import { appDocument } from "../model/app-document.ts";
import { AppError } from "../model/errors.ts";
import type { RunTrace } from "../model/trace.ts";
import type { Tracer } from "../runs/traces/tracer.ts";
import type { Fairness } from "../model/queue-limits.ts";

/** A request to an address of an app. */
export type AppRequest<Route extends AppRoute = AppRoute> = {
  readonly connection: Connection;
  readonly exchange: Exchange;
  readonly head: RequestHead;
  readonly route: Route;
};

/** A call that has passed every check except that of its arguments. */
export type CheckedCall = AppRequest<CallRoute> & {
  readonly live: LiveApp;
  readonly query: RunQuery;
  /** Null if a public app was called without a token. */
  readonly token: RememberedToken | null;
  /** In whose line it waits. */
  readonly fairness: Fairness | null;
};

/** What every handler of an app's addresses needs. */
export type AppParts = {
  readonly catalog: Catalog;
  readonly authenticator: Authenticator;
  /** The error for an app that takes no calls. */
  readonly whyAbsent: (app: AppRoute) => Promise<AppError>;
  /** Null: links are made from the request's Host. */
  readonly publicApiUrl: string | null;
};

/** The trace that a call belongs to, if any. `hasToken`: the caller has shown a valid one. */
export function beginTrace(
  tracer: Pick<Tracer, "begin">,
  { exchange, head }: Pick<AppRequest, "exchange" | "head">,
  hasToken: boolean,
): RunTrace | null {
  const { traceparent } = head;
  const tracestate = traceparent === null ? null : tracestateOf(exchange.request);
  return tracer.begin(traceparent, tracestate, hasToken);
}

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
  // The scheme of the public URL shows whether a proxy in front speaks TLS.
  if (place.isOnAppHost) return `${publicApiUrl?.startsWith("https:") ? "https:" : "http:"}//${host}`;
  // HTTP/1.0 requests may lack a Host; the answer then contains the path only.
  const apiUrl = publicApiUrl ?? (host === null ? "" : `http://${host}`);
  return apiUrl + appPath(place, route);
}

/** Answers a call that is executed in the background: 202 and the address of the run. */
export function answerAccepted(
  { exchange, route }: Pick<AppRequest, "exchange" | "route">,
  publicApiUrl: string | null,
  runId: string,
  headers?: Readonly<Record<string, string>>,
): void {
  const location = `${appUrl(exchange, route, publicApiUrl)}/runs/${runId}`;
  exchange.answerJson(202, { run_id: runId }, { location, ...headers });
}

/** `GET /v4/{project}/{app}/openapi.json`: the app's functions and their schemas, for anyone who may call the app. */
export async function sendDocument(
  { catalog, authenticator, publicApiUrl, whyAbsent }: AppParts,
  request: AppRequest,
): Promise<void> {
  const { exchange, route } = request;
  const live = catalog.find(route.projectId, route.appName);
  const isPublic = live?.version.config.deployment.disableAuth ?? false;
  if (!isPublic) await authenticator.admit(request, "document");
  if (!live) throw await whyAbsent(route);
  if (exchange.request.method !== "GET")
    throw new AppError("method_not_allowed", { headers: { allow: "GET" } });
  const document = appDocument({
    appName: live.app.name,
    version: live.version.number,
    functions: await catalog.functions(live),
    url: appUrl(exchange, route, publicApiUrl),
    isPublic,
    ignoresExtra: live.version.config.deployment.extraParams === "ignore",
  });
  exchange.answerJson(200, document);
}
