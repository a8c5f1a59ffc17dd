import { APP_NAME, FUNCTION_NAME, PROJECT_ID, RUN_ID } from "../model/names.ts";

/** What every address of an app begins with. */
export type AppRoute = { readonly projectId: string; readonly appName: string };

/** A call of an app's function. */
export type CallRoute = AppRoute & {
  readonly kind: "call";
  readonly functionName: string;
  /** A sub-path follows the function: the answer is the bare result, as OpenAI's clients expect it. */
  readonly isBare: boolean;
  /** Without the question mark; empty when there is none. */
  readonly query: string;
};

/** Something to do with a run that has begun. */
export type RunRoute = AppRoute & {
  readonly kind: "run";
  readonly runId: string;
  readonly action: RunAction;
};

/** The app's own OpenAPI document. */
export type DocumentRoute = AppRoute & { readonly kind: "document" };

/** Some other address below an app: only a server of the app's own may have it. */
type PathRoute = AppRoute & { readonly kind: "path" };

const RUN_ACTIONS = ["input", "result", "events", "cancel"] as const;
/** The run itself, or one of these after its id. */
export type RunAction = "record" | (typeof RUN_ACTIONS)[number];

export type Route = CallRoute | RunRoute | DocumentRoute | PathRoute;

const MAX_CACHED = 4096;
const MAX_CACHED_CHARS = 512;
const SUB_PATH = /^[A-Za-z0-9._~!$&'()*+,;=:@%-]+$/;

/**
 * Finds the route in a request's target. Segments are matched as they came: nothing is decoded, so nothing can
 * be decoded twice. Null if it is below no app.
 */
export function parseRoute(target: string): Route | null {
  const mark = target.indexOf("?");
  const path = mark === -1 ? target : target.slice(0, mark);
  const [before, version, projectId = "", appName = "", name = "", ...rest] = path.split("/");
  if (before !== "" || version !== "v4" || !PROJECT_ID.test(projectId) || !APP_NAME.test(appName))
    return null;
  const other: PathRoute = { kind: "path", projectId, appName };
  if (name === "runs") return parseRun({ projectId, appName }, rest) ?? other;
  if (name === "openapi.json") return rest.length === 0 ? { kind: "document", projectId, appName } : other;
  if (!FUNCTION_NAME.test(name) || !rest.every((segment) => SUB_PATH.test(segment))) return other;
  const query = mark === -1 ? "" : target.slice(mark + 1);
  return { kind: "call", projectId, appName, functionName: name, isBare: rest.length > 0, query };
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
