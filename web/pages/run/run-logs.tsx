import { Link } from "@tanstack/react-router";
import type { LogPage } from "../../api/logs.ts";
import { MAX_LINES } from "../../api/run-logs.ts";
import type { RunIds } from "../../api/runs.ts";
import { Card } from "../../parts/card.tsx";
import { classes } from "../../parts/classes.ts";
import { plainLine } from "../../parts/plain-line.ts";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";

const MAX_CHARS = 5_000;

/** The last lines that a run printed. */
export function RunLogs({
  ids: { projectId, appName, runId },
  page,
  error,
  isOver,
}: {
  readonly ids: RunIds;
  readonly page: LogPage | undefined;
  readonly error: unknown;
  readonly isOver: boolean;
}) {
  return (
    <Card
      title="Logs"
      actions={
        <Link
          to="/projects/$projectId/apps/$appName/logs"
          params={{ projectId, appName }}
          search={{ runId }}
          className="text-accent underline-offset-2 hover:underline"
        >
          Open in logs
        </Link>
      }
    >
      {error && !page ? (
        <Problem error={error} />
      ) : !page ? (
        <Skeleton className="h-24 w-full" />
      ) : page.lines.length === 0 ? (
        <p className="py-2 text-ink-soft">{isOver ? "It printed nothing." : "It has printed nothing yet."}</p>
      ) : (
        <>
          {page.olderToken !== null && (
            <p className="mb-2 text-[0.9rem] text-ink-faint">The last {MAX_LINES} lines.</p>
          )}
          <ol
            tabIndex={0}
            aria-label="Logs"
            className="max-h-104 overflow-auto rounded-md border border-line bg-sunken p-3 font-mono text-[0.88rem]"
          >
            {page.lines.map(({ timestamp, stream, text }) => (
              <li
                key={timestamp}
                title={timestamp}
                className={classes(
                  "min-h-5 whitespace-pre-wrap break-words",
                  stream === "stderr" && "text-bad",
                )}
              >
                {plainLine(text.slice(0, MAX_CHARS))}
                {text.length > MAX_CHARS && "…"}
              </li>
            ))}
          </ol>
        </>
      )}
    </Card>
  );
}
