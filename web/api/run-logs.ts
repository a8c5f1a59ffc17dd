import { queryOptions } from "@tanstack/react-query";
import { readLog } from "./logs.ts";
import type { LogLine } from "./logs.ts";
import { isOver } from "./runs.ts";
import type { Run, RunIds } from "./runs.ts";

/** More are on the page of logs. */
export const MAX_LINES = 500;

const POLL_MS = 2_000;
/** The last lines of a run come a moment after its end. */
const LATE_MS = 10_000;

/** The last lines that a run printed, followed while it runs. */
export function runLogsQuery({ projectId, appName, runId }: RunIds, run: Run) {
  const endedAt = run.completedAt === null ? Number.POSITIVE_INFINITY : Date.parse(run.completedAt);
  return queryOptions({
    queryKey: ["run-logs", projectId, appName, runId, isOver(run)],
    queryFn: ({ signal }) => readLog({ projectId, appName }, { runId, pageSize: MAX_LINES }, signal),
    refetchInterval: () => (isOver(run) && Date.now() - endedAt > LATE_MS ? false : POLL_MS),
    placeholderData: (last) => last,
  });
}

/**
 * The traceback among a run's lines, which it wrote when it failed, without the error at its end; null where there is none.
 */
export function tracebackOf(lines: readonly LogLine[], message: string): string | null {
  const errors = lines.filter(({ stream }) => stream === "stderr");
  const start = errors.findLastIndex(({ text }) => text.startsWith("Traceback (most recent call last)"));
  if (start === -1) return null;
  const text = errors
    .slice(start)
    .map((line) => line.text)
    .join("\n")
    .trimEnd();
  return message !== "" && text.endsWith(message) ? text.slice(0, -message.length).trimEnd() : text;
}
