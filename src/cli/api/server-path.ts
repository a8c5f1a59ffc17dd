import { APP } from "../../shapes/apps.ts";
import { ERROR } from "../../shapes/errors.ts";
import { fits } from "../../shapes/shape.ts";
import { usage } from "../failure.ts";
import type { Api } from "./api.ts";
import { explain } from "./explain.ts";
import type { Answer } from "./http.ts";

/** What the service answers where an app of functions is asked for a path. */
const NO_SUCH_PATH = ["not_found", "function_not_found", "method_not_allowed"];

/** The address of a path of an app that is a server, its query as it was typed; throws where dots lead out of the app. */
export async function pathUrl(api: Api, app: string, path: string): Promise<URL> {
  const base = new URL(await api.appUrl(app, ""));
  const url = URL.parse(`${base.href}${path.slice(1)}`);
  if (!url?.href.startsWith(base.href)) throw usage(`${JSON.stringify(path)} is not a path below ${app}`);
  url.hash = "";
  return url;
}

/** Whether this is the body of a refusal by the service itself, and not of the app's server. */
export function isOwnRefusal(text: string): boolean {
  try {
    return fits(ERROR, JSON.parse(text));
  } catch {
    return false;
  }
}

/** Throws what to say where the service itself refused a request to a path. */
export async function refusedPath(
  api: Api,
  app: string,
  answer: Pick<Answer, "status">,
  text: string,
): Promise<never> {
  const failure = explain(answer, text, api.site, { app });
  if (!NO_SUCH_PATH.includes(failure.detail.code ?? "")) throw failure;
  // Says so where there is no such app.
  const { latestBuildId } = await api.get(APP, await api.appPath(app), { about: { app } });
  if (latestBuildId === null) throw failure;
  throw usage(
    `${app} offers functions and has no paths: it is not a server of its own`,
    `millrace call ${app} FUNCTION key=value`,
  );
}
