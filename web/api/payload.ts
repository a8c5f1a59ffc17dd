import { queryOptions } from "@tanstack/react-query";
import { errorIn } from "../../src/shapes/shape.ts";
import { ApiError } from "./answer.ts";
import { askApps } from "./http.ts";
import { runPath } from "./runs.ts";
import type { RunIds } from "./runs.ts";

/** So much of a payload is shown; the whole can be downloaded. */
export const SHOWN_BYTES = 200_000;

/** The beginning of what a run was given or answered. */
export type Payload = {
  readonly text: string;
  readonly contentType: string;
  /** There is more than the text. */
  readonly isCut: boolean;
};

export type PayloadKind = "input" | "result";

/** The beginning of a run's input or result; null when it is not kept. */
export function payloadQuery(ids: RunIds, kind: PayloadKind, isThere: boolean) {
  return queryOptions({
    queryKey: ["payload", ids.projectId, ids.appName, ids.runId, kind],
    queryFn: async ({ signal }) => await readPayload(ids, kind, signal),
    enabled: isThere,
    staleTime: Infinity,
    gcTime: 60_000,
  });
}

async function readPayload(ids: RunIds, kind: PayloadKind, signal: AbortSignal): Promise<Payload | null> {
  const response = await askApps(`${runPath(ids)}/${kind}`, { signal });
  const contentType = response.headers.get("content-type") ?? "";
  if (contentType === OWN_STREAM) {
    // Shown message by message, from another address.
    await response.body?.cancel();
    return { text: "", contentType, isCut: false };
  }
  const read = await readBeginning(response, SHOWN_BYTES);
  // A failed run's result is its error too, with the status that its caller got.
  const code = response.ok ? "" : codeOf(read.text);
  if (code === "payload_not_kept") return null;
  if (REFUSALS.has(code)) throw new ApiError(response.status, { code });
  return { ...read, contentType };
}

/** The type of what a function yields; a server's own streams are kept as a text, under any other spelling. */
const OWN_STREAM = "text/event-stream; charset=utf-8";
const REFUSALS = new Set(["run_not_found", "app_not_found", "unauthorized", "forbidden"]);

function codeOf(text: string): string {
  try {
    return errorIn(JSON.parse(text)).code ?? "";
  } catch {
    return "";
  }
}

/** The first bytes of an answer as text; the rest is not read. */
export async function readBeginning(
  response: Response,
  maxBytes: number,
): Promise<{ readonly text: string; readonly isCut: boolean }> {
  const reader = response.body?.getReader();
  if (!reader) return { text: "", isCut: false };
  const decoder = new TextDecoder();
  let text = "";
  let left = maxBytes;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), isCut: false };
    text += decoder.decode(value.subarray(0, left), { stream: true });
    left -= value.length;
    if (left < 0) {
      await reader.cancel();
      return { text, isCut: true };
    }
  }
}

/** The whole, as bytes with their type. */
export async function wholePayload(ids: RunIds, kind: PayloadKind): Promise<Blob> {
  return await (await askApps(`${runPath(ids)}/${kind}`)).blob();
}
