import { useEffect, useRef, useState } from "react";
import { callFunction } from "../../../api/call.ts";
import type { CallAnswer } from "../../../api/call.ts";
import { MessageLog, useMessages } from "../../../api/message-log.ts";
import type { Messages } from "../../../api/message-log.ts";
import type { Call } from "../../../api/snippets.ts";

export type CallState = {
  readonly answer: CallAnswer | null;
  readonly messages: Messages;
  readonly error: unknown;
  readonly isBusy: boolean;
  readonly send: (call: Call) => void;
  /** Gives the call up; its run is cancelled. */
  readonly stop: () => void;
};

/** One call at a time, and what came back; who leaves the page gives it up. */
export function useCall(): CallState {
  const [log] = useState(() => new MessageLog());
  const [answer, setAnswer] = useState<CallAnswer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const aborter = useRef<AbortController | null>(null);
  useEffect(() => () => aborter.current?.abort(), []);
  const send = (call: Call): void => {
    aborter.current?.abort();
    const own = new AbortController();
    aborter.current = own;
    log.clear();
    setAnswer(null);
    setError(null);
    setBusy(true);
    callFunction(call, log, setAnswer, own.signal)
      .catch((reason: unknown) => {
        if (!own.signal.aborted) setError(reason);
      })
      .finally(() => {
        if (aborter.current === own) setBusy(false);
      });
  };
  const stop = (): void => {
    aborter.current?.abort();
    setAnswer((last) => last && { ...last, isStopped: last.totalMs === null });
  };
  return { answer, messages: useMessages(log), error, isBusy, send, stop };
}
