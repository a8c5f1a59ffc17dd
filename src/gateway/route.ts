import { APP_NAME, FUNCTION_NAME, PROJECT_ID } from "../model/names.ts";

/** A call of an app's function. */
export type RunRoute = {
  readonly projectId: string;
  readonly appName: string;
  readonly functionName: string;
  /** A sub-path follows the function: the answer is the bare result, as OpenAI's clients expect it. */
  readonly isBare: boolean;
  /** Without the question mark; empty when there is none. */
  readonly query: string;
};

const MAX_CACHED = 4096;
const MAX_CACHED_CHARS = 512;
const SUB_PATH = /^[A-Za-z0-9._~!$&'()*+,;=:@%-]+$/;

/** What may not be a function's name, because the path means something else. */
const RESERVED = new Set(["runs", "openapi.json"]);

/**
 * Finds the route in a request's target. Segments are matched as they came: nothing is decoded, so nothing can
 * be decoded twice. Null: there is nothing at that address.
 */
export function parseRoute(target: string): RunRoute | null {
  const mark = target.indexOf("?");
  const path = mark === -1 ? target : target.slice(0, mark);
  const [before, version, projectId = "", appName = "", functionName = "", ...subPath] = path.split("/");
  if (before !== "" || version !== "v4") return null;
  if (!PROJECT_ID.test(projectId) || !APP_NAME.test(appName) || !FUNCTION_NAME.test(functionName))
    return null;
  if (RESERVED.has(functionName) || !subPath.every((segment) => SUB_PATH.test(segment))) return null;
  const query = mark === -1 ? "" : target.slice(mark + 1);
  return { projectId, appName, functionName, isBare: subPath.length > 0, query };
}

/** Remembers the routes of the latest targets: most callers use few. */
export class Router {
  readonly #known = new Map<string, RunRoute | null>();

  route(target: string): RunRoute | null {
    const known = this.#known.get(target);
    if (known !== undefined) return known;
    const route = parseRoute(target);
    if (target.length <= MAX_CACHED_CHARS) {
      if (this.#known.size >= MAX_CACHED) this.#known.clear();
      this.#known.set(target, route);
    }
    return route;
  }
}
