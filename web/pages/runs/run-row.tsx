import { Link } from "@tanstack/react-router";
import { memo } from "react";
import { nameOf } from "../../api/apps.ts";
import { calledText } from "../../api/runs.ts";
import type { Run } from "../../api/runs.ts";
import { RunMarks, StateBadge } from "../../parts/badge.tsx";
import { classes } from "../../parts/classes.ts";
import { bytes, span } from "../../parts/format.ts";
import { Cell, Row } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";

type Props = {
  readonly projectId: string;
  readonly run: Run;
  readonly isOfApp: boolean;
  /** Some of the list are of servers, whose bytes are counted. */
  readonly hasBytes: boolean;
};

/** One run of a list; the whole row leads to its page. */
export const RunRow = memo(function RunRow({ projectId, run, isOfApp, hasBytes }: Props) {
  const appName = nameOf(projectId, run.modelId);
  return (
    <Row className="relative">
      <Cell className="font-mono text-[0.9rem]">
        <Link
          to="/projects/$projectId/apps/$appName/runs/$runId"
          params={{ projectId, appName, runId: run.id }}
          aria-label={`Run ${run.id}`}
          title={run.id}
          className="text-accent underline-offset-2 after:absolute after:inset-0 hover:underline"
        >
          {shortId(run.id)}
        </Link>
      </Cell>
      <Cell>
        <span className="inline-flex gap-1.5">
          <StateBadge state={run.status} />
          <RunMarks run={run} />
        </span>
      </Cell>
      {!isOfApp && <Cell className="max-w-48 truncate">{appName}</Cell>}
      <Cell isMinor className="max-w-48 truncate font-mono text-[0.9rem] text-ink-soft">
        <span title={calledText(run)}>{calledText(run)}</span>
      </Cell>
      <Cell align="right" isMinor>
        <StatusCode code={run.statusCode} />
      </Cell>
      {hasBytes && (
        <Cell align="right" isMinor className="text-ink-soft">
          {trafficText(run)}
        </Cell>
      )}
      <Cell align="right">
        <Time at={run.startedAt ?? run.createdAt} />
      </Cell>
      <Cell align="right">{span(run.runtimeMs)}</Cell>
      <Cell align="right" isMinor className="text-ink-soft">
        {span(run.queueTimeMs)}
      </Cell>
    </Row>
  );
});

/** The HTTP status of a run's answer, while there is one. */
export function StatusCode({ code }: { readonly code: number | null }) {
  if (code === null) return <span className="text-ink-faint">–</span>;
  return <span className={classes("tabular", code >= 400 && "text-bad")}>{code}</span>;
}

/** What a server got and sent. */
function trafficText({ requestBytes, responseBytes }: Run): string {
  if (requestBytes === null || responseBytes === null) return "–";
  return `${bytes(requestBytes)} / ${bytes(responseBytes)}`;
}

/** Its end: ids begin with the time, which runs of one minute share. */
function shortId(id: string): string {
  return `…${id.slice(-12)}`;
}
