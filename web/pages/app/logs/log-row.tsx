import { Link } from "@tanstack/react-router";
import { memo, useState } from "react";
import { Button } from "../../../parts/button.tsx";
import { classes } from "../../../parts/classes.ts";
import { count, exact } from "../../../parts/format.ts";
import type { NumberedLine } from "./log-view.ts";
import { plainLine } from "../../../parts/plain-line.ts";

/** Of a longer line the rest is shown on demand. */
const MAX_SHOWN = 2_000;
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

type Props = {
  readonly line: NumberedLine;
  readonly projectId: string;
  readonly appName: string;
  readonly isWrapped: boolean;
};

/** One line: when, of which run, and what it says. */
export const LogRow = memo(function LogRow({ line, projectId, appName, isWrapped }: Props) {
  const [isWhole, setWhole] = useState(false);
  const { timestamp, runId, stream } = line;
  const text = plainLine(line.text);
  const isLong = text.length > MAX_SHOWN && !isWhole;
  const ms = Date.parse(timestamp);
  return (
    <div
      className={classes(
        "flex min-h-5.5 items-baseline gap-3 border-l-2 px-3 hover:bg-sunken",
        stream === "stderr" ? "border-bad" : "border-transparent",
        !isWrapped && "w-max min-w-full",
      )}
    >
      <time dateTime={timestamp} title={exact(ms)} className="tabular shrink-0 text-ink-faint">
        {CLOCK.format(ms)}
        <span className="max-md:hidden">{timestamp.slice(19, 23)}</span>
      </time>
      {stream === "stderr" && <span className="sr-only">stderr</span>}
      {runId === null ? (
        <span className="w-[8ch] shrink-0 max-md:hidden" />
      ) : (
        <Link
          to="/projects/$projectId/apps/$appName/runs/$runId"
          params={{ projectId, appName, runId }}
          aria-label={`Run ${runId}`}
          title={`Run ${runId}`}
          className="w-[8ch] shrink-0 text-accent underline-offset-2 hover:underline max-md:hidden"
        >
          {runId.slice(-8)}
        </Link>
      )}
      <span
        className={classes("flex-1", isWrapped ? "min-w-0 break-all whitespace-pre-wrap" : "whitespace-pre")}
      >
        {isLong ? text.slice(0, MAX_SHOWN) : text}
        {isLong && (
          <Button size="small" className="ml-2 !h-4.5 font-sans" onClick={() => setWhole(true)}>
            Show all {count(text.length)} characters
          </Button>
        )}
      </span>
    </div>
  );
});
