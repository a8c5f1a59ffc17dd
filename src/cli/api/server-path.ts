import { ERROR } from "../../shapes/errors.ts";
import { fits } from "../../shapes/shape.ts";
import { CliFailure, usage } from "../failure.ts";
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

/** What to say where the service itself refused a request to a path. */
export function explainPath(api: Api, app: string, answer: Pick<Answer, "status">, text: string): CliFailure {
  const failure = explain(answer, text, api.site, { app });
  if (!NO_SUCH_PATH.includes(failure.detail.code ?? "")) return failure;
  return usage(
    `${app} offers functions and has no paths: it is not a server of its own`,
    `millrace call ${app} FUNCTION key=value`,
  );
}

/** What to say to an error that a call of a function led to: the service refused it, or the app is a server. */
export function explainCall(
  api: Api,
  { app, functionName }: { readonly app: string; readonly functionName: string },
  answer: Answer,
  text: string,
): CliFailure {
  const isFromApp = answer.headers["server-timing"] !== undefined && !isOwnRefusal(text);
  if (!isFromApp) return explain(answer, text, api.site, { app });
  return new CliFailure(
    `${app} is a server of its own, and answered ${answer.status} to POST /${functionName}`,
    { hint: `name one of its paths: millrace call ${app} /PATH` },
  );
}
