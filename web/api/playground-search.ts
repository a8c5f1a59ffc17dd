import { readTranscriptView } from "./run-search.ts";
import type { TranscriptView } from "./run-search.ts";

export const CALL_MODES = ["sync", "async", "stream"] as const;
export type CallMode = (typeof CALL_MODES)[number];

export const LANGUAGES = ["curl", "typescript", "python"] as const;
export type Language = (typeof LANGUAGES)[number];

/** What the playground's address says: how an app is called, and how that is shown. */
export type PlaygroundSearch = {
  /** A run whose input is taken. */
  readonly from?: string;
  readonly function?: string;
  readonly mode?: CallMode;
  readonly input?: "json";
  readonly code?: Language;
  readonly view?: TranscriptView;
  /** A server's WebSocket instead of a request. */
  readonly kind?: "websocket";
};

/** What of an address is the playground's; the rest is left out. */
export function readPlaygroundSearch(search: Readonly<Record<string, unknown>>): PlaygroundSearch {
  const { from, mode, input, code, kind } = search;
  const name = search["function"];
  return {
    ...(typeof from === "string" && { from }),
    ...(typeof name === "string" && { function: name }),
    ...(isOneOf(CALL_MODES, mode) && { mode }),
    ...(input === "json" && { input }),
    ...(isOneOf(LANGUAGES, code) && { code }),
    ...readTranscriptView(search),
    ...(kind === "websocket" && { kind }),
  };
}

function isOneOf<Name extends string>(names: readonly Name[], value: unknown): value is Name {
  return names.includes(value as Name);
}
