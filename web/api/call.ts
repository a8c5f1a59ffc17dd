import { errorIn } from "../../src/shapes/shape.ts";
import { readEvents } from "./events.ts";
import type { MessageLog } from "./message-log.ts";
import { SHOWN_BYTES, readBeginning } from "./payload.ts";
import { session } from "./session.ts";
import { callUrl } from "./snippets.ts";
import type { Call } from "./snippets.ts";

/** What was answered to a call, as far as it has come. */
export type CallAnswer = {
  readonly status: number;
  /** Null where no run was made of the call. */
  readonly runId: string | null;
  readonly isStream: boolean;
  /** From the call to the head of the answer, and to its end. */
  readonly headMs: number;
  readonly totalMs: number | null;
  /** It was given up on the way. */
  readonly isStopped: boolean;
  readonly text: string;
  readonly isCut: boolean;
  /** What is wrong with each argument, by its name. */
  readonly faults: Readonly<Record<string, string>>;
};

/**
 * Calls a function as it stands: the body goes out byte for byte. Messages of a stream go to the log as they come.
 * To abort is to cancel the run.
 */
export async function callFunction(
  call: Call,
  log: MessageLog,
  onAnswer: (answer: CallAnswer) => void,
  signal: AbortSignal,
): Promise<void> {
  const startedAt = performance.now();
  const token = await session.token();
  const response = await fetch(callUrl(call), {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-disconnect": "cancel",
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(call.mode === "stream" && { accept: "text/event-stream" }),
    },
    body: call.body,
    signal,
  });
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
  const head = {
    status: response.status,
    runId: REFUSALS.has(response.status) ? null : response.headers.get("x-request-id"),
    isStream,
    headMs: performance.now() - startedAt,
    totalMs: null,
    isStopped: false,
    text: "",
    isCut: false,
    faults: {},
  };
  onAnswer(head);
  if (isStream) {
    await readEvents(response, ({ event, data }) => {
      log.add(event, data);
      return true;
    });
    onAnswer({ ...head, totalMs: performance.now() - startedAt });
    return;
  }
  const { text, isCut } = await readBeginning(response, SHOWN_BYTES);
  const isRefused = REFUSALS.has(head.status) && !text.startsWith(RESULT);
  onAnswer({
    ...head,
    runId: isRefused ? null : response.headers.get("x-request-id"),
    text,
    isCut,
    faults: isRefused ? faultsOf(text) : {},
    totalMs: performance.now() - startedAt,
  });
}

/** Statuses with which a call is refused before it is a run, and which a function may set too. */
const REFUSALS = new Set([400, 401, 403, 404, 405, 413, 415, 422]);
/** How the answer of a run begins. */
const RESULT = '{"run_id":';

const FAULTS: Readonly<Record<string, string>> = {
  missing: "This is required.",
  unknown: "The function takes no argument of that name.",
};

type FaultyArgument = { readonly field?: unknown; readonly problem?: unknown };

function faultsOf(text: string): Record<string, string> {
  try {
    const details = (errorIn(JSON.parse(text)).details ?? []) as readonly FaultyArgument[];
    return Object.fromEntries(
      details.map(({ field, problem }) => [String(field), FAULTS[String(problem)] ?? String(problem)]),
    );
  } catch {
    return {};
  }
}
