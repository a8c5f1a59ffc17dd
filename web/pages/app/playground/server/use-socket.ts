import { useEffect, useRef, useState } from "react";
import { messageOf } from "../../../../api/answer.ts";
import { MessageLog, useMessages } from "../../../../api/message-log.ts";
import type { Messages } from "../../../../api/message-log.ts";
import { protocolsOf, socketUrl } from "../../../../api/server-call.ts";
import type { SocketCall } from "../../../../api/server-call.ts";
import { session } from "../../../../api/session.ts";
import { count } from "../../../../parts/format.ts";

export type SocketState = {
  readonly state: "closed" | "opening" | "open";
  /** What went and came; those with an event's name are about the connection itself. */
  readonly messages: Messages;
  readonly connect: (call: SocketCall) => void;
  readonly send: (text: string) => void;
  readonly close: () => void;
  readonly clear: () => void;
};

const NORMAL = 1000;
const REFUSED =
  "There is no WebSocket there. Browsers do not tell why: send a GET request to the same path, or look at the runs.";

/** One WebSocket at a time, as whoever is signed in; who leaves the page closes it. */
export function useSocket(): SocketState {
  const [log] = useState(() => new MessageLog());
  const [state, setState] = useState<SocketState["state"]>("closed");
  const current = useRef<WebSocket | null>(null);
  const hasLeft = useRef(false);
  const hasGivenUp = useRef(false);
  useEffect(() => {
    hasLeft.current = false;
    return () => {
      hasLeft.current = true;
      current.current?.close(NORMAL);
    };
  }, []);
  const tell = (event: string | null, text: string, isSent = false): void => {
    log.add(event, text, isSent);
    log.flush();
  };
  const open = async (call: SocketCall): Promise<void> => {
    const token = await session.token();
    if (hasLeft.current) return;
    const offered = token === null ? [] : ["millrace", `millrace.bearer.${token}`];
    const socket = new WebSocket(socketUrl(call), [...protocolsOf(call), ...offered]);
    socket.binaryType = "arraybuffer";
    current.current = socket;
    let hasOpened = false;
    socket.addEventListener("open", () => {
      hasOpened = true;
      setState("open");
      tell("connected", socket.protocol === "" ? "" : `subprotocol ${socket.protocol}`);
    });
    socket.addEventListener("message", ({ data }: MessageEvent<string | ArrayBuffer>) =>
      log.add(null, typeof data === "string" ? data : `${count(data.byteLength)} bytes of binary`),
    );
    socket.addEventListener("close", ({ code, reason }) => {
      current.current = null;
      setState("closed");
      if (hasOpened) tell("closed", reason === "" ? String(code) : `${code} ${reason}`);
      else tell("not connected", hasGivenUp.current ? "You closed it before it was open." : REFUSED);
    });
  };
  const connect = (call: SocketCall): void => {
    setState("opening");
    hasGivenUp.current = false;
    open(call).catch((error: unknown) => {
      setState("closed");
      tell("not connected", messageOf(error));
    });
  };
  const send = (text: string): void => {
    current.current?.send(text);
    tell(null, text, true);
  };
  const close = (): void => {
    hasGivenUp.current = true;
    current.current?.close(NORMAL);
  };
  return { state, messages: useMessages(log), connect, send, close, clear: () => log.clear() };
}
