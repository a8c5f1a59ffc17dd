import { APP_NAME, FUNCTION_NAME, PROJECT_ID, RUN_ID } from "../model/names.ts";
import { AppError } from "../model/errors.ts";
import { isWish, SERVER_PREFIX } from "../model/wishes.ts";

/** What every address of an app begins with. */
export type AppRoute = { readonly projectId: string; readonly appName: string };

/** A call of an app's function. */
export type CallRoute = AppRoute & {
  readonly kind: "call";
  readonly functionName: string;
  /** A sub-path follows the function: the answer is the bare result, as OpenAI's clients expect it. */
  readonly isBare: boolean;
  /** The sub-path is `models`, where OpenAI's clients look for the list of models. */
  readonly isModels: boolean;
  /** The sub-path is `batches`, where JSON Lines are uploaded. */
  readonly isBatches: boolean;
  /** The sub-path is one of OpenAI's Batch API. */
  readonly openAi: OpenAiRoute | null;
  /** Without the question mark; empty when there is none. */
  readonly query: string;
};

/** Something to do with a run that has begun. */
export type RunRoute = AppRoute & {
  readonly kind: "run";
  readonly runId: string;
  readonly action: RunAction;
};

/** The batches of an app, or something to do with one of them. */
export type BatchRoute = AppRoute & {
  readonly kind: "batch";
  /** Null: all of them. */
  readonly batchId: string | null;
  readonly action: BatchAction;
  readonly query: string;
};

/** An address of OpenAI's Batch API below a function: files or batches, one of them, or something to do with it. */
type OpenAiRoute = {
  readonly what: "files" | "batches";
  readonly id: string | null;
  readonly action: "content" | "cancel" | null;
};

const BATCH_ACTIONS = ["results", "cancel", "retry"] as const;
type BatchAction = "list" | "record" | (typeof BATCH_ACTIONS)[number];

/** The app's own OpenAPI document. */
type DocumentRoute = AppRoute & { readonly kind: "document" };

/** Some other address below an app: only a server of the app's own may have it. */
type PathRoute = AppRoute & { readonly kind: "path" };

const RUN_ACTIONS = ["input", "result", "events", "cancel"] as const;
/** The run itself, or one of these after its id. */
type RunAction = "record" | (typeof RUN_ACTIONS)[number];

export type Route = CallRoute | RunRoute | BatchRoute | DocumentRoute | PathRoute;

const MAX_CACHED = 4096;
const MAX_CACHED_CHARS = 512;
const SUB_PATH = /^[A-Za-z0-9._~!$&'()*+,;=:@%-]+$/;

/** Finds the route of a target; null if it is below no app. Nothing is decoded, so nothing can be decoded twice. */
export function parseRoute(target: string): Route | null {
  const { segments, query } = split(target);
  const [before, version, projectId = "", appName = "", ...rest] = segments;
  if (before !== "" || version !== "v4" || !PROJECT_ID.test(projectId) || !APP_NAME.test(appName))
    return null;
  return parseBelow({ projectId, appName }, rest, query);
}

/** Finds the route of a request to an app's own host, where the app is at the root. */
export function parseHostRoute({ projectId, appName }: AppRoute, target: string): Route {
  const { segments, query } = split(target);
  return parseBelow({ projectId, appName }, segments.slice(1), query);
}

function split(target: string): { segments: string[]; query: string } {
  const mark = target.indexOf("?");
  if (mark === -1) return { segments: target.split("/"), query: "" };
  return { segments: target.slice(0, mark).split("/"), query: target.slice(mark + 1) };
}

function parseBelow(app: AppRoute, [name = "", ...rest]: readonly string[], query: string): Route {
  const other: PathRoute = { kind: "path", ...app };
  if (name === "runs") return parseRun(app, rest) ?? other;
  if (name === "batches") return parseBatches(app, rest, query) ?? other;
  if (name === "openapi.json") return rest.length === 0 ? { kind: "document", ...app } : other;
  if (!FUNCTION_NAME.test(name) || !rest.every((segment) => SUB_PATH.test(segment))) return other;
  const isModels = rest.length === 1 && rest[0] === "models";
  const isBatches = rest.length === 1 && rest[0] === "batches";
  const openAi = parseOpenAi(rest);
  return {
    kind: "call",
    ...app,
    functionName: name,
    isBare: rest.length > 0,
    isModels,
    isBatches,
    openAi,
    query,
  };
}

function parseOpenAi(rest: readonly string[]): OpenAiRoute | null {
  const [what, id = null, action = null, ...more] = rest[0] === "v1" ? rest.slice(1) : rest;
  if ((what !== "files" && what !== "batches") || more.length > 0) return null;
  if (action === null) return { what, id, action };
  return action === (what === "files" ? "content" : "cancel") ? { what, id, action } : null;
}

function parseBatches(app: AppRoute, rest: readonly string[], query: string): BatchRoute | null {
  const [batchId = null, name, ...more] = rest;
  if (batchId === null) return { kind: "batch", ...app, batchId, action: "list", query };
  const action = name === undefined ? "record" : BATCH_ACTIONS.find((known) => known === name);
  if (!action || !RUN_ID.test(batchId) || more.length > 0) return null;
  return { kind: "batch", ...app, batchId, action, query };
}

function parseRun(app: AppRoute, [runId = "", name, ...more]: readonly string[]): RunRoute | null {
  const action = name === undefined ? "record" : RUN_ACTIONS.find((known) => known === name);
  return action && RUN_ID.test(runId) && more.length === 0 ? { kind: "run", ...app, runId, action } : null;
}

/** Remembers the routes of the latest calls: most callers use few. */
export class Router {
  readonly #known = new Map<string, CallRoute>();

  route(target: string): Route | null {
    const known = this.#known.get(target);
    if (known !== undefined) return known;
    const route = parseRoute(target);
    if (route?.kind === "call" && target.length <= MAX_CACHED_CHARS) {
      if (this.#known.size >= MAX_CACHED) this.#known.clear();
      this.#known.set(target, route);
    }
    return route;
  }
}

/** What the query of a run call asks for. */
export type RunQuery = { readonly isAsync: boolean; readonly webhookEndpoint: string | null };

const PLAIN: RunQuery = { isAsync: false, webhookEndpoint: null };

/** Reads `async` and `webhookEndpoint`; other parameters are ignored. */
export function readQuery(query: string): RunQuery {
  if (query === "") return PLAIN;
  const parameters = new URLSearchParams(query);
  const isAsync = single(parameters, "async") ?? "false";
  if (isAsync !== "true" && isAsync !== "false")
    throw new AppError("bad_request", { message: "async must be true or false." });
  return { isAsync: isAsync === "true", webhookEndpoint: single(parameters, "webhookEndpoint") };
}

function single(parameters: URLSearchParams, name: string): string | null {
  const values = parameters.getAll(name);
  if (values.length > 1) throw new AppError("bad_request", { message: `${name} may be given only once.` });
  return values[0] ?? null;
}

const OURS = ["async", "webhookEndpoint"];
const MAY_BE_OURS = /async|webhookEndpoint|millrace_|%/i;

/**
 * The parameters of a target that are for the service, and the target that the app gets: without them, otherwise
 * unchanged. With methods other than POST, all parameters are the app's.
 */
export function readTarget(target: string, method: string): { target: string; query: RunQuery } {
  const mark = method === "POST" ? target.indexOf("?") : -1;
  if (mark === -1) return { target, query: PLAIN };
  const text = target.slice(mark + 1);
  if (!MAY_BE_OURS.test(text)) return { target, query: PLAIN };
  const kept = queryWithout(text, (name) => OURS.includes(name) || isWish(name, SERVER_PREFIX));
  const path = target.slice(0, mark);
  return { target: kept === "" ? path : `${path}?${kept}`, query: readQuery(text) };
}

/** A query without some of its parameters, otherwise unchanged. */
export function queryWithout(query: string, isUnwanted: (name: string) => boolean): string {
  // A question mark is ignored at the beginning of a query, and part of a name later.
  const isKept = (part: string, i: number): boolean =>
    ![...new URLSearchParams(i === 0 ? part : `&${part}`).keys()].some(isUnwanted);
  return query.split("&").filter(isKept).join("&");
}
