import { checked, ERROR, errorIn, fits, ShapeError } from "../../shapes/shape.ts";
import type { ErrorBody, Infer, Shape } from "../../shapes/shape.ts";
import { CliFailure, EXIT, type FailureDetail, usage } from "../failure.ts";
import type { Answer } from "./http.ts";
import type { Site } from "./site.ts";

/** What the failed request was about. */
export type About = { readonly app?: string | undefined; readonly runId?: string };

/** The failure for an answer that is an error. */
export function explain(status: number, text: string, site: Site, about: About = {}): CliFailure {
  const body = errorOf(text);
  if (body.code === undefined || body.message === undefined) {
    return new CliFailure(`${site.baseUrl} answered ${status}, but not the way Millrace does`, {
      hint: "check the address: millrace whoami shows which one is used",
    });
  }
  const { message, code, request_id: requestId, details } = body;
  const hintOf = Object.hasOwn(HINTS, code) ? HINTS[code] : undefined;
  const hint = hintOf?.(site, about.app ?? "APP", requestId ?? about.runId);
  // Does not repeat what the message already says.
  const untold = details?.map(sentence).filter((fault) => !message.includes(fault.split(": ").at(-1) ?? ""));
  const detail: FailureDetail = {
    code,
    ...(requestId !== undefined && { requestId }),
    ...(untold && untold.length > 0 && { details: untold }),
    ...(hint !== undefined && { hint }),
  };
  const exitCode = USAGE_CODES.includes(code) ? EXIT.usage : EXIT.failure;
  return new CliFailure(sayWhat(code, message, site, about), detail, exitCode);
}

function sayWhat(code: string, message: string, site: Site, { app }: About): string {
  if (code === "unauthorized") return `${site.baseUrl} does not accept the token from ${site.tokenSource}`;
  if (code === "forbidden")
    return `the token from ${site.tokenSource} is not allowed to do that in ${site.project}`;
  if (code === "app_not_found") return `the project ${site.project} has no app ${JSON.stringify(app ?? "")}`;
  return message.replace(/\.$/, "");
}

const HINTS: Readonly<Record<string, (site: Site, app: string, runId?: string) => string>> = {
  unauthorized: ({ baseUrl }) => `millrace login ${baseUrl}`,
  forbidden: () => "millrace whoami shows whose token it is",
  app_not_found: () => "millrace apps list shows the apps; millrace deploy creates one",
  run_not_found: (_, app) => `millrace runs list ${app}`,
  batch_not_found: (_, app) => `millrace batches list ${app}`,
  build_not_found: (_, app) => `millrace builds list ${app}`,
  app_error: logsOf,
  result_not_json: logsOf,
  app_crashed: logsOf,
  out_of_memory: logsOf,
  out_of_gpu_memory: (_, app) =>
    `set a larger hardware.gpu_memory, then millrace deploy; see millrace logs ${app}`,
  no_gpu_free: () => "millrace hardware shows the GPUs",
  bad_app_response: logsOf,
  app_not_ready: (_, app) => `see millrace logs ${app}, fix the app, then millrace deploy`,
  invalid_webhook: () => "to allow a private address, set MILLRACE_WEBHOOK_ALLOW where the service runs",
  internal: (_, _app, runId) => `the service's log has details under ${runId ?? "the time of this call"}`,
  timed_out: (_, app) => `millrace apps scale ${app} --grace 1h allows more time`,
};

function logsOf(_: Site, app: string, runId?: string): string {
  return runId === undefined ? `millrace logs ${app}` : `millrace logs ${app} --run ${runId}`;
}

const USAGE_CODES = ["bad_request", "invalid_json", "invalid_arguments"];

function sentence(fault: unknown): string {
  if (typeof fault === "string") return fault;
  const { field, problem, message } = fault as Readonly<
    Partial<Record<"field" | "problem" | "message", string>>
  >;
  return field === undefined || problem === undefined
    ? JSON.stringify(fault)
    : `${field}: ${message ?? problem}`;
}

/** The value of a JSON text; undefined if it is not JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The members of an error in the text of an answer; none if it holds no error. */
export function errorOf(text: string): ErrorBody {
  return errorIn(parsedJson(text));
}

/** The service's codes for a path of an app that offers functions. */
const NO_SUCH_PATH = ["not_found", "function_not_found", "method_not_allowed"];

/** Whether a body is a refusal by the service itself, not by the app's server. */
export function isOwnRefusal(text: string): boolean {
  return fits(ERROR, parsedJson(text));
}

/** The failure if the service itself refused a request to a path. */
export function explainPath(site: Site, app: string, status: number, text: string): CliFailure {
  const failure = explain(status, text, site, { app });
  if (!NO_SUCH_PATH.includes(failure.detail.code ?? "")) return failure;
  return usage(
    `${app} offers functions and has no paths: it is not a server of its own`,
    `millrace call ${app} FUNCTION key=value`,
  );
}

/** The failure of a call of a function: the service refused it, or the app is a server. */
export function explainCall(
  site: Site,
  { app, functionName }: { readonly app: string; readonly functionName: string },
  answer: Answer,
  text: string,
): CliFailure {
  const isFromApp = answer.headers["server-timing"] !== undefined && !isOwnRefusal(text);
  if (!isFromApp) return explain(answer.status, text, site, { app });
  const message = `${app} is a server of its own, and answered ${answer.status} to POST /${functionName}`;
  return new CliFailure(message, { hint: `name one of its paths: millrace call ${app} /PATH` });
}

/** Reads an answer of a service; throws a sentence if it has not the shape. */
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
