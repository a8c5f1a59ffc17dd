import { BUILD_FRAME, BUILD_LOG } from "../../src/shapes/builds.ts";
import { checked } from "../../src/shapes/shape.ts";
import { ApiError } from "./answer.ts";
import { appPath } from "./apps.ts";
import { isUnderWay } from "./builds.ts";
import { ask } from "./http.ts";
import { session } from "./session.ts";

/** A line of a build's log. */
export type BuildLine = {
  /** From 1, without a gap. */
  readonly number: number;
  readonly id: string;
  readonly at: string;
  readonly text: string;
  readonly isError: boolean;
};

export type BuildIds = { readonly projectId: string; readonly appName: string; readonly buildId: string };

type Take = (lines: readonly BuildLine[]) => void;
const AGAIN_MS = 1_500;
/** Lines are shown together that come within so long. */
const GATHER_MS = 60;
const ENDED = 1000;
/** The service's word for a token that is no longer good. */
const BAD_TOKEN = 1008;

/**
 * Gives a build's log from its first line as it comes; resolves when the build has ended. Where no WebSocket gets
 * through it is asked for again and again.
 */
export async function followBuild(ids: BuildIds, take: Take, signal: AbortSignal): Promise<void> {
  let last: BuildLine | undefined;
  const takeNew: Take = (lines) => {
    const fresh = lines.filter(({ number }) => number > (last?.number ?? 0));
    last = fresh.at(-1) ?? last;
    if (fresh.length > 0 && !signal.aborted) take(fresh);
  };
  while (!signal.aborted) {
    const end = await listen(ids, last?.id ?? null, takeNew, signal);
    if (end === "ended" || signal.aborted) return;
    if (end === "refused" && (await readWhole(ids, takeNew, signal))) return;
    await pause(AGAIN_MS, signal);
  }
}

/** One WebSocket from its opening to its end. */
async function listen(
  { projectId, buildId }: BuildIds,
  after: string | null,
  take: Take,
  signal: AbortSignal,
): Promise<"ended" | "broken" | "refused"> {
  const token = await session.token();
  if (token === null || signal.aborted) return "refused";
  const query = new URLSearchParams({ projectID: projectId, buildID: buildId, token });
  if (after !== null) query.set("after", after);
  const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws-build-logs?${String(query)}`);
  const close = (): void => {
    // One that is still being made closes itself: browsers complain about the other way.
    if (socket.readyState === WebSocket.OPEN) socket.close();
  };
  signal.addEventListener("abort", close);
  let gathered: BuildLine[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const give = (): void => {
    timer = undefined;
    const lines = gathered;
    gathered = [];
    take(lines);
  };
  let hasOpened = false;
  socket.addEventListener("open", () => {
    hasOpened = true;
    if (signal.aborted) socket.close();
  });
  socket.addEventListener("message", ({ data }) => {
    const frame = checked(BUILD_FRAME, JSON.parse(String(data)));
    const { log_id: id, log_line_number: number, timestamp: at, log: text } = frame;
    gathered.push({ number, id, at, text, isError: frame.stream === "stderr" });
    timer ??= setTimeout(give, GATHER_MS);
  });
  const code = await new Promise<number>((resolve) =>
    socket.addEventListener("close", (event) => resolve(event.code)),
  );
  signal.removeEventListener("abort", close);
  clearTimeout(timer);
  give();
  if (code === BAD_TOKEN) await session.renew();
  if (!hasOpened) return "refused";
  return code === ENDED ? "ended" : "broken";
}

/** The log as far as it has come; resolves with whether that is all. */
async function readWhole(
  { projectId, appName, buildId }: BuildIds,
  take: Take,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const path = `${appPath(projectId, appName)}/builds/${buildId}/logs`;
    const { logs, status } = await ask(BUILD_LOG, path, { signal });
    // This way does not say what was an error.
    take(
      logs.map(({ id, createdAt: at, log: text }, index) => ({
        number: index + 1,
        id,
        at,
        text,
        isError: false,
      })),
    );
    return !isUnderWay({ status });
  } catch (error) {
    // A service that restarts comes back.
    if (error instanceof ApiError && error.status < 500) throw error;
    return false;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}
