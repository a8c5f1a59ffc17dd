import { ERROR, errorIn } from "../../shapes/errors.ts";
import type { ErrorBody } from "../../shapes/errors.ts";
import { CliFailure, EXIT, usage } from "../failure.ts";
import type { FailureDetail } from "../failure.ts";
import { ConnectionError } from "./http.ts";
import type { Answer } from "./http.ts";
import type { Site } from "./site.ts";
import { checked, fits, ShapeError } from "../../shapes/shape.ts";
import type { Infer, Shape } from "../../shapes/shape.ts";

/** What the failed request was about. */
export type About = { readonly app?: string; readonly runId?: string };

/** What to say when nobody answers. */
export function explainConnection({ url, message }: ConnectionError): CliFailure {
  const { origin } = new URL(url);
  return new CliFailure(`no service answers at ${origin}: ${message}`, {
    code: "unreachable",
    hint: "start one with millrace start, or name another with --url, MILLRACE_URL or millrace login URL",
  });
}

/** What to say when there is no token to show. */
export function explainMissingToken({ baseUrl }: Site): CliFailure {
  return new CliFailure(`no token for ${baseUrl}`, {
    code: "unauthorized",
    hint: `millrace login ${baseUrl}, or set MILLRACE_TOKEN`,
  });
}

/** What to say to an answer that is an error. */
export function explain(
  answer: Pick<Answer, "status">,
  text: string,
  site: Site,
  about: About = {},
): CliFailure {
  const body = parse(text);
  if (body.code === undefined || body.message === undefined) {
    return new CliFailure(`${site.baseUrl} answered ${answer.status}, but not the way Millrace does`, {
      hint: "check the address: millrace whoami shows which one is used",
    });
  }
  const { message, code, request_id: requestId, details } = body;
  const hint = hintFor(code, site, { ...about, ...(requestId !== undefined && { runId: requestId }) });
  // Where the message has them all already, they are not said twice.
  const untold = details?.map(sentence).filter((fault) => !message.includes(fault.split(": ").at(-1) ?? ""));
  const detail: FailureDetail = {
    code,
    ...(requestId !== undefined && { requestId }),
    ...(untold && untold.length > 0 && { details: untold }),
    ...(hint !== null && { hint }),
  };
  return new CliFailure(sayWhat(code, message, site, about), detail, exitCodeOf(code));
}

function sayWhat(code: string, message: string, site: Site, { app }: About): string {
  if (code === "unauthorized") return `${site.baseUrl} does not accept the token from ${site.tokenSource}`;
  if (code === "forbidden")
    return `the token from ${site.tokenSource} is not allowed to do that in ${site.project}`;
  if (code === "app_not_found") return `the project ${site.project} has no app ${JSON.stringify(app ?? "")}`;
  return message.replace(/\.$/, "");
}

/** The command that helps; null when none does. */
function hintFor(code: string, { baseUrl }: Site, { app = "APP", runId }: About): string | null {
  switch (code) {
    case "unauthorized":
      return `millrace login ${baseUrl}`;
    case "forbidden":
      return "millrace whoami shows whose token it is";
    case "app_not_found":
      return "millrace apps list shows the apps; millrace deploy creates one";
    case "run_not_found":
      return `millrace runs list ${app}`;
    case "build_not_found":
      return `millrace builds list ${app}`;
    case "app_error":
    case "result_not_json":
    case "app_crashed":
    case "out_of_memory":
    case "bad_app_response":
      return runId === undefined ? `millrace logs ${app}` : `millrace logs ${app} --run ${runId}`;
    case "app_not_ready":
      return `see millrace logs ${app}, fix the app, then millrace deploy`;
    case "invalid_webhook":
      return "to allow a private address, set MILLRACE_WEBHOOK_ALLOW where the service runs";
    case "internal":
      return `the service's log has details under ${runId ?? "the time of this call"}`;
    case "timed_out":
      return `millrace apps scale ${app} --grace 1h allows more time`;
    default:
      return null;
  }
}

/** What the service calls malformed was typed so. */
function exitCodeOf(code: string): number {
  return code === "bad_request" || code === "invalid_json" || code === "invalid_arguments"
    ? EXIT.usage
    : EXIT.failure;
}

/** One of several faults as a sentence. */
function sentence(fault: unknown): string {
  if (typeof fault === "string") return fault;
  const { field, problem } = fault as { readonly field?: string; readonly problem?: string };
  return field === undefined || problem === undefined ? JSON.stringify(fault) : `${field}: ${problem}`;
}

function parse(text: string): ErrorBody {
  try {
    return errorIn(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Anything that went wrong on the way, as a sentence; what is not ours to explain stays as it is. */
export function explainError(error: unknown): unknown {
  return error instanceof ConnectionError ? explainConnection(error) : error;
}

/** What the service answers where an app of functions is asked for a path. */
const NO_SUCH_PATH = ["not_found", "function_not_found", "method_not_allowed"];

/** Whether this is the body of a refusal by the service itself, and not of the app's server. */
export function isOwnRefusal(text: string): boolean {
  try {
    return fits(ERROR, JSON.parse(text));
  } catch {
    return false;
  }
}

/** What to say where the service itself refused a request to a path. */
export function explainPath(
  site: Site,
  app: string,
  answer: Pick<Answer, "status">,
  text: string,
): CliFailure {
  const failure = explain(answer, text, site, { app });
  if (!NO_SUCH_PATH.includes(failure.detail.code ?? "")) return failure;
  return usage(
    `${app} offers functions and has no paths: it is not a server of its own`,
    `millrace call ${app} FUNCTION key=value`,
  );
}

/** What to say to an error that a call of a function led to: the service refused it, or the app is a server. */
export function explainCall(
  site: Site,
  { app, functionName }: { readonly app: string; readonly functionName: string },
  answer: Answer,
  text: string,
): CliFailure {
  const isFromApp = answer.headers["server-timing"] !== undefined && !isOwnRefusal(text);
  if (!isFromApp) return explain(answer, text, site, { app });
  return new CliFailure(
    `${app} is a server of its own, and answered ${answer.status} to POST /${functionName}`,
    { hint: `name one of its paths: millrace call ${app} /PATH` },
  );
}

/** What a service has answered, known to have the shape; throws a sentence where it has not. */
export function readJson<S extends Shape>(shape: S, text: string, baseUrl: string): Infer<S> {
  try {
    return checked(shape, text === "" ? {} : JSON.parse(text));
  } catch (error) {
    if (error instanceof ShapeError) {
      throw new CliFailure(`${baseUrl} answered, but not as this release expects: ${error.fault}`, {
        hint: "use the same release as the service; millrace version shows yours",
      });
    }
    throw new CliFailure(`${baseUrl} answered with something that is not JSON`, {
      hint: "check the address: millrace whoami shows which one is used",
    });
  }
}
