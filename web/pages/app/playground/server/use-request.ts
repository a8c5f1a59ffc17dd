import { useEffect, useRef, useState } from "react";
import { BodyLog, useBody } from "../../../../api/body-log.ts";
import type { ShownBody } from "../../../../api/body-log.ts";
import { MessageLog, useMessages } from "../../../../api/message-log.ts";
import type { Messages } from "../../../../api/message-log.ts";
import { callServer } from "../../../../api/server-call.ts";
import type { ServerAnswer, ServerCall } from "../../../../api/server-call.ts";
import { saveBlob } from "../../../../parts/save-text.ts";

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

/** One request at a time, and what came back; who leaves the page gives it up. */
export function useRequest(): RequestState {
  const [logs] = useState(() => ({ messages: new MessageLog(), body: new BodyLog() }));
  const [answer, setAnswer] = useState<ServerAnswer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const aborter = useRef<AbortController | null>(null);
  useEffect(() => () => aborter.current?.abort(), []);
  const send = (call: ServerCall): void => {
    aborter.current?.abort();
    const own = new AbortController();
    aborter.current = own;
    logs.messages.clear();
    logs.body.clear();
    setAnswer(null);
    setError(null);
    setBusy(true);
    callServer(call, logs, setAnswer, own.signal)
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
  const save = (): void => {
    const type = answer?.contentType ?? "";
    saveBlob(`${answer?.runId ?? "answer"}.${endingOf(type)}`, logs.body.blob(type));
  };
  const [messages, body] = [useMessages(logs.messages), useBody(logs.body)];
  return { answer, messages, body, error, isBusy, send, stop, save };
}

/** What the name of a file of that type ends with, as far as its type says so. */
function endingOf(contentType: string): string {
  const [, subtype] = /^\w+\/(?:[\w.-]{1,100}\+)?(\w{1,10})\b/.exec(contentType) ?? [];
  if (subtype === undefined || subtype === "octet") return "bin";
  return subtype === "plain" || subtype === "event" ? "txt" : subtype;
}
