import { RUN_STATES } from "../../src/model/run.ts";
import type { RunState } from "../../src/model/run.ts";
import { RANGES } from "./figures.ts";
import type { RangeName } from "./figures.ts";

/** What a list of runs can be narrowed to; all of it is in the address. */
export type RunSearch = {
  readonly status?: RunState;
  readonly mode?: RunMode;
  readonly function?: string;
  /** A span up to now, such as `1h`, or a time. */
  readonly from?: string;
  /** A time. */
  readonly to?: string;
  readonly app?: string;
  /** One run by its id; then nothing else narrows the list. */
  readonly id?: string;
};

const RUN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Whether it is a run's whole id. */
export function isRunId(text: unknown): text is string {
  return typeof text === "string" && RUN_ID.test(text);
}

export const RUN_MODES = ["sync", "async"] as const;
type RunMode = (typeof RUN_MODES)[number];

/** What of an address is a filter of runs; the rest is left out. */
export function readRunSearch(search: Readonly<Record<string, unknown>>): RunSearch {
  const { status, mode, from, to, app, id } = search;
  if (isRunId(id)) return { id: id.toLowerCase() };
  const name = search["function"];
  return {
    ...(isOneOf(RUN_STATES, status) && { status }),
    ...(isOneOf(RUN_MODES, mode) && { mode }),
    ...(isText(name) && { function: String(name) }),
    ...(isText(from) && (isSpan(from) || isTime(from)) && { from: String(from) }),
    ...(isText(to) && isTime(to) && { to: String(to) }),
    ...(isText(app) && { app: String(app) }),
  };
}

/** The filter as the API takes it; a span ends now. */
export function queryOf(search: RunSearch, now: number): Record<string, string | undefined> {
  const { status, mode, from, to, id } = search;
  return {
    run_id: id,
    status,
    mode,
    functionName: search.function,
    from: isSpan(from) ? new Date(now - RANGES[from].ms).toISOString() : from && new Date(from).toISOString(),
    to: to && new Date(to).toISOString(),
  };
}

/** Whether it is one of the usual spans up to now. */
export function isSpan(from: unknown): from is RangeName {
  return typeof from === "string" && Object.hasOwn(RANGES, from);
}

function isTime(text: string | number): boolean {
  const ms = Date.parse(String(text));
  return ms >= 0 && ms < 253_402_300_800_000;
}

/** A name of digits alone is read as a number. */
function isText(value: unknown): value is string | number {
  return (typeof value === "string" && value !== "") || typeof value === "number";
}

function isOneOf<Name extends string>(names: readonly Name[], value: unknown): value is Name {
  return names.includes(value as Name);
}

/** How a run's messages are shown: one by one, or as the text they make together. */
export type TranscriptView = "messages" | "text";

export function readTranscriptView({ view }: Readonly<Record<string, unknown>>): { view?: TranscriptView } {
  return view === "text" || view === "messages" ? { view } : {};
}
