import { AppError } from "../model/errors.ts";

/** What the query of a run call asks for. */
export type RunQuery = { readonly isAsync: boolean; readonly webhookEndpoint: string | null };

const PLAIN: RunQuery = { isAsync: false, webhookEndpoint: null };

/** Reads `async` and `webhookEndpoint`; other parameters are ignored. */
export function readQuery(query: string): RunQuery {
  if (query === "") return PLAIN;
  const parameters = new URLSearchParams(query);
  const isAsync = single(parameters, "async") ?? "false";
  if (isAsync !== "true" && isAsync !== "false") {
    throw new AppError("bad_request", { message: "async must be true or false." });
  }
  return { isAsync: isAsync === "true", webhookEndpoint: single(parameters, "webhookEndpoint") };
}

function single(parameters: URLSearchParams, name: string): string | null {
  const values = parameters.getAll(name);
  if (values.length > 1) throw new AppError("bad_request", { message: `${name} may be given only once.` });
  return values[0] ?? null;
}
