import { isUtf8 } from "node:buffer";
import { isServerRun, packRequest, unpackRequest } from "../model/http-request.ts";
import type { HttpRequest } from "../model/http-request.ts";
import type { LimitsConfig } from "../model/app-config.ts";
import type { Payload } from "../model/payload.ts";
import type { RunEnd, ServerRequest } from "./live-run.ts";
import { STREAM_TYPE } from "./response.ts";

/** The same type in other words. */
const PLAIN_STREAM_TYPE = "text/event-stream;charset=utf-8";
/** As much as one look may take of the event loop; `…/result` gives a larger one. */
const MAX_SHOWN_BYTES = 256 * 1024;
const JSON_TYPE = /^application\/(?:[\w.-]{1,100}\+)?json\s*(?:;|$)/i;

/** A request that nobody waits for: its response is kept whole. */
export function storedRequest(head: HttpRequest, body: Buffer, limits: LimitsConfig): ServerRequest {
  return {
    ...head,
    body,
    keptBytes: limits.maxResultBytes,
    mustKeep: true,
    input: () => packRequest(head, body),
  };
}

/** What a stored run of a server app is executed with; nothing for a function's, or where nothing is left of it. */
export function httpOf(
  run: { readonly functionName: string },
  input: Uint8Array | null,
  limits: LimitsConfig,
): { readonly http?: ServerRequest } {
  if (!isServerRun(run) || !input?.length) return {};
  const { head, body } = unpackRequest(input);
  return { http: storedRequest(head, body, limits) };
}

/** The body that was answered; null where a server's was too large to be kept. */
export function storedBody({ outcome, response }: RunEnd): Buffer | null {
  return outcome.kind === "responded" ? outcome.body : response.body;
}

/** As the type of a stored answer. One word for word that of our own streams would stand for a transcript. */
export function storedType(type: string | null): string | null {
  return type === STREAM_TYPE ? PLAIN_STREAM_TYPE : type;
}

/** What a server answered, to be put into JSON; null if it is none: nobody has looked at it so far. */
export function asJson({ contentType, result }: Payload): Buffer | null {
  if (!result || result.length > MAX_SHOWN_BYTES || !JSON_TYPE.test(contentType ?? "")) return null;
  const bytes = Buffer.from(result);
  if (!isUtf8(bytes)) return null;
  try {
    JSON.parse(bytes.toString("utf8"));
  } catch {
    return null;
  }
  return bytes;
}
