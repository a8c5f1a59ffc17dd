import { isTextType } from "./media-type.ts";
import type { Payload } from "./payload.ts";
import { isOfServer } from "./runs.ts";
import type { Run } from "./runs.ts";
import { METHODS } from "./server-call.ts";
import type { ServerCall } from "./server-call.ts";

/** What can be filled in of a request to a server. */
export type RequestDraft = Pick<ServerCall, "method" | "path" | "headers" | "body">;

/** The request that a run was, as far as it is stored: its query is not, nor are its headers. */
export function requestOf(run: Run | undefined, input: Payload | null | undefined): RequestDraft {
  const path = run && isOfServer(run) ? run.functionName : "/";
  const hasBody = input && input.text !== "";
  return {
    method: METHODS.find((name) => name === run?.method) ?? "GET",
    path: run?.async ? `${path}?async=true` : path,
    headers: hasBody ? `Content-Type: ${input.contentType}` : "",
    body: hasBody && !input.isCut && isTextType(input.contentType) ? input.text : "",
  };
}
