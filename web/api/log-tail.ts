import { LOG_FRAME_WITH_STREAM } from "../../src/shapes/logs.ts";
import { checked } from "../../src/shapes/shape.ts";
import { idOf } from "./apps.ts";
import type { LogLine } from "./logs.ts";
import { session } from "./session.ts";

export type TailOptions = {
  readonly projectId: string;
  readonly appName: string;
  readonly runId?: string | undefined;
  /** Lines after this timestamp. */
  readonly after: string;
  readonly onLines: (lines: readonly LogLine[]) => void;
  /** Whether lines come as they are printed, or the connection has to be made again first. */
  readonly onLive: (isLive: boolean) => void;
};

/** Lines that come together are shown together. */
const GATHER_MS = 100;
const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 15_000;
/** The service's word for a token that is no longer good. */
const BAD_TOKEN = 1008;

/** Follows an app's log from a place on, over as many connections as it takes; ends at the signal. */
export function followLog(options: TailOptions, signal: AbortSignal): void {
  let { after } = options;
  let waitMs = FIRST_WAIT_MS;
  let gathered: LogLine[] = [];
  let timer: ReturnType<typeof setTimeout> | null = null;
  let socket: WebSocket | null = null;

  const handOver = (): void => {
    timer = null;
    const lines = gathered;
    gathered = [];
    if (!signal.aborted) options.onLines(lines);
  };
  const onMessage = ({ data }: MessageEvent<string>): void => {
    const frame = checked(LOG_FRAME_WITH_STREAM, JSON.parse(data));
    const { timestamp, run_id: runId, container_name: replica, stream, log: text } = frame;
    after = timestamp;
    gathered.push({ timestamp, runId, replica, stream, text });
    timer ??= setTimeout(handOver, GATHER_MS);
  };
  const again = (): void => {
    if (signal.aborted) return;
    options.onLive(false);
    setTimeout(() => void connect(), waitMs);
    waitMs = Math.min(waitMs * 2, MAX_WAIT_MS);
  };
  async function connect(isTokenBad = false): Promise<void> {
    const token = await (isTokenBad ? session.renew() : session.token()).catch(() => undefined);
    if (signal.aborted || token === null) return;
    if (token === undefined) return again();
    const opening = new WebSocket(addressOf(options, after, token));
    socket = opening;
    socket.addEventListener("open", () => {
      if (signal.aborted) return opening.close();
      waitMs = FIRST_WAIT_MS;
      options.onLive(true);
    });
    socket.addEventListener("message", onMessage);
    // A connection that could not be made is closed too.
    socket.addEventListener("close", ({ code }) => {
      if (signal.aborted) return;
      if (code === BAD_TOKEN) void connect(true);
      else again();
    });
  }

  signal.addEventListener("abort", () => {
    if (timer !== null) clearTimeout(timer);
    // One that is still being made closes itself: browsers complain about the other way.
    if (socket?.readyState === WebSocket.OPEN) socket.close();
  });
  void connect();
}

function addressOf({ projectId, appName, runId = "" }: TailOptions, after: string, token: string): string {
  const query = new URLSearchParams({
    projectID: projectId,
    appID: idOf(projectId, appName),
    runID: runId,
    after,
    withStream: "true",
    token,
  });
  return `${location.origin.replace(/^http/, "ws")}/ws-logs?${query.toString()}`;
}
