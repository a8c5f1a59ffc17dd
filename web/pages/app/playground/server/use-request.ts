import { useState } from "react";
import { BodyLog, useBody } from "../../../../api/body-log.ts";
import type { ShownBody } from "../../../../api/body-log.ts";
import { MessageLog, useMessages } from "../../../../api/message-log.ts";
import type { Messages } from "../../../../api/message-log.ts";
import { callServer } from "../../../../api/server-call.ts";
import type { ServerAnswer, ServerCall } from "../../../../api/server-call.ts";
import { saveBlob } from "../../../../parts/save-text.ts";
import { useOneCall } from "../use-one-call.ts";

export type RequestState = {
  readonly answer: ServerAnswer | null;
  readonly messages: Messages;
  readonly body: ShownBody;
  readonly error: unknown;
  readonly isBusy: boolean;
  readonly send: (call: ServerCall) => void;
  /** Gives the request up; its run is cancelled. */
  readonly stop: () => void;
  /** Has the browser keep what came as a file. */
  readonly save: () => void;
};

/** One request at a time, and what came back. */
export function useRequest(): RequestState {
  const [logs] = useState(() => ({ messages: new MessageLog(), body: new BodyLog() }));
  const { begin, ...state } = useOneCall<ServerAnswer>();
  const send = (call: ServerCall): void => {
    logs.messages.clear();
    logs.body.clear();
    begin((onAnswer, signal) => callServer(call, logs, onAnswer, signal));
  };
  const save = (): void => {
    const type = state.answer?.contentType ?? "";
    saveBlob(`${state.answer?.runId ?? "answer"}.${endingOf(type)}`, logs.body.blob(type));
  };
  const [messages, body] = [useMessages(logs.messages), useBody(logs.body)];
  return { ...state, messages, body, send, save };
}

/** What the name of a file of that type ends with, as far as its type says so. */
function endingOf(contentType: string): string {
  const [, subtype] = /^\w+\/(?:[\w.-]{1,100}\+)?(\w{1,10})\b/.exec(contentType) ?? [];
  if (subtype === undefined || subtype === "octet") return "bin";
  return subtype === "plain" || subtype === "event" ? "txt" : subtype;
}
