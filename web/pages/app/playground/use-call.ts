import { useState } from "react";
import { callFunction } from "../../../api/call.ts";
import type { CallAnswer } from "../../../api/call.ts";
import { MessageLog, useMessages } from "../../../api/message-log.ts";
import type { Messages } from "../../../api/message-log.ts";
import type { Call } from "../../../api/snippets.ts";
import { useOneCall } from "./use-one-call.ts";

export type CallState = {
  readonly answer: CallAnswer | null;
  readonly messages: Messages;
  readonly error: unknown;
  readonly isBusy: boolean;
  readonly send: (call: Call) => void;
  /** Gives the call up; its run is cancelled. */
  readonly stop: () => void;
};

/** One call at a time, and what came back. */
export function useCall(): CallState {
  const [log] = useState(() => new MessageLog());
  const { begin, ...state } = useOneCall<CallAnswer>();
  const send = (call: Call): void => {
    log.clear();
    begin((onAnswer, signal) => callFunction(call, log, onAnswer, signal));
  };
  return { ...state, messages: useMessages(log), send };
}
