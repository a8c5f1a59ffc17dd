import { randomHex } from "../kit/ids.ts";

// W3C Trace Context: https://www.w3.org/TR/trace-context/

/** Where a caller's trace is when it comes here. */
export type TraceContext = {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** The caller's span: 16 hexadecimal digits. */
  readonly parentId: string;
  readonly isSampled: boolean;
  /** The id of the trace is random, so its end may be used for sampling. */
  readonly isRandom?: boolean;
  /** The `tracestate` header; null if there is none, or it is not valid. */
  readonly state: string | null;
};

/** The trace that a run belongs to. Stored as JSON, so members are only ever added. */
export type RunTrace = {
  readonly traceId: string;
  /** The caller's span; null for a trace that begins here. */
  readonly parentId: string | null;
  /** The run's own span, above those of its attempts; null if none of them are recorded. */
  readonly spanId: string | null;
  /** Whether what comes next in the trace is to be recorded. */
  readonly isSampled: boolean;
  /** As in `TraceContext`. */
  readonly isRandom?: boolean;
  readonly state: string | null;
  /** A schedule started the run. */
  readonly isFired?: boolean;
};

/** The headers that pass a trace on. */
export type TraceHeaders = { readonly traceparent: string; readonly tracestate: string | null };

/** What the code that runs a call is told of its run's trace. */
export type CallTrace = TraceHeaders & {
  readonly traceId: string;
  /** The span that it is told of; null if that is the caller's, because none are recorded here. */
  readonly spanId: string | null;
};

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NO_TRACE = "0".repeat(32);
const NO_SPAN = "0".repeat(16);
const SAMPLED = 1;
const RANDOM = 2;
/** A longer header, even one of a later version, is no `traceparent`. */
const MAX_TRACEPARENT_CHARS = 256;

/**
 * The trace of a request with these headers, several of one name joined by commas; null if `traceparent` is not valid. One of
 * a later version of the standard is read as far as this version goes.
 */
export function readTrace(traceparent: string, tracestate: string | null): TraceContext | null {
  if (traceparent.length > MAX_TRACEPARENT_CHARS) return null;
  const [, version, traceId, parentId, flags = "", rest] = TRACEPARENT.exec(traceparent) ?? [];
  if (!traceId || !parentId || version === "ff" || (version === "00" && rest !== undefined)) return null;
  if (traceId === NO_TRACE || parentId === NO_SPAN) return null;
  const bits = Number.parseInt(flags, 16);
  const state = tracestate === null ? null : readState(tracestate);
  const isSampled = (bits & SAMPLED) !== 0;
  return { traceId, parentId, isSampled, ...((bits & RANDOM) !== 0 && { isRandom: true }), state };
}

const MAX_MEMBERS = 32;
/** What every participant must be able to pass on; beyond it, members are left out. */
const MAX_STATE_CHARS = 512;
const LONG_MEMBER_CHARS = 128;
const MEMBER =
  /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/** A `tracestate` as it is passed on; null if it is not valid. Of one that is too long, long members go first. */
function readState(text: string): string | null {
  // As many as could be valid: more are not even cut apart.
  const members = text.split(",", MAX_MEMBERS * 4).flatMap((member) => member.trim() || []);
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf("="))));
  if (members.length === 0 || members.length > MAX_MEMBERS || keys.size < members.length) return null;
  if (!members.every((member) => MEMBER.test(member))) return null;
  let chars = members.reduce((sum, member) => sum + member.length + 1, -1);
  for (const isDropped of [(member: string) => member.length > LONG_MEMBER_CHARS, () => true]) {
    for (let i = members.length - 1; i >= 0 && chars > MAX_STATE_CHARS; i--) {
      if (!isDropped(members[i]!)) continue;
      chars -= members[i]!.length + 1;
      members.splice(i, 1);
    }
  }
  return members.length > 0 ? members.join(",") : null;
}

/** What comes next in the run's trace, below that span; null: the last one before it that was recorded. */
export function traceBelow(trace: RunTrace, spanId: string | null): CallTrace {
  const { traceId, state, isSampled, isRandom = false } = trace;
  const parentId = spanId ?? trace.spanId ?? trace.parentId ?? NO_SPAN;
  const flags = (isSampled ? SAMPLED : 0) | (isRandom ? RANDOM : 0);
  const traceparent = `00-${traceId}-${parentId}-0${flags}`;
  return { traceId, spanId, traceparent, tracestate: state };
}

export function newTraceId(): string {
  return randomHex(16);
}

export function newSpanId(): string {
  return randomHex(8);
}
