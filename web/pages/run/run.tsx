import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useState } from "react";
import { ApiError } from "../../api/answer.ts";
import { isEventType } from "../../api/media-type.ts";
import { payloadQuery } from "../../api/payload.ts";
import { runLogsQuery, tracebackOf } from "../../api/run-logs.ts";
import { calledText, isOfServer, isOver, isTalk, runQuery } from "../../api/runs.ts";
import type { Run, RunIds } from "../../api/runs.ts";
import { RunMarks, StateBadge } from "../../parts/badge.tsx";
import { Card } from "../../parts/card.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Page } from "../../parts/page.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { RunActions } from "./actions.tsx";
import { Facts } from "./facts.tsx";
import { Failure } from "./failure.tsx";
import { Input } from "./input.tsx";
import { Output } from "./output.tsx";
import { RunPlace } from "./place.tsx";
import { RunProgress } from "./progress.tsx";
import { RunLogs } from "./run-logs.tsx";
import { Timeline } from "./timeline.tsx";
import { useTranscript } from "./transcript.ts";

/** One run: what it was given, what it answered, and where its time went; it changes while the run does. */
export function RunPage() {
  const ids = useParams({ from: "/gate/projects/$projectId/apps/$appName/runs/$runId" });
  const { data: run, error, refetch } = useQuery(runQuery(ids));
  const { projectId, appName, runId } = ids;
  if (error instanceof ApiError && error.status === 404) return <NoSuchRun ids={ids} />;
  return (
    <Page
      title={run ? `${appName} · ${calledText(run)}` : appName}
      subtitle={
        <span className="flex min-w-0 flex-wrap items-center gap-2">
          {run ? <StateBadge state={run.status} /> : <Skeleton className="h-5.5 w-16" />}
          {run && <RunMarks run={run} />}
          <code className="min-w-0 font-mono text-[0.88rem] break-all">{runId}</code>
          <Copy text={runId} label="Copy id" />
          <Link
            to="/projects/$projectId/apps/$appName/runs"
            params={{ projectId, appName }}
            className="text-accent underline-offset-2 hover:underline"
          >
            All runs of {appName}
          </Link>
        </span>
      }
      actions={run && <RunActions ids={ids} run={run} />}
    >
      {run ? (
        <RunView key={runId} ids={ids} run={run} />
      ) : error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : (
        <Loading />
      )}
    </Page>
  );
}

function RunView({ ids, run }: { readonly ids: RunIds; readonly run: Run }) {
  const queries = useQueryClient();
  const { view = "messages" } = useSearch({ from: "/gate/projects/$projectId/apps/$appName/runs/$runId" });
  const [wasLive] = useState(!isOver(run));
  const { data: result } = useQuery(payloadQuery(ids, "result", isOver(run) && !isTalk(run)));
  const { data: logs, error: logsError } = useQuery(runLogsQuery(ids, run));
  // Of a server nothing is known before its answer is whole.
  const isStream = !isOfServer(run) && isEventType(result?.contentType ?? "");
  const { projectId, appName, runId } = ids;
  const onEnd = useCallback(
    () => void queries.invalidateQueries({ queryKey: ["run", projectId, appName, runId] }),
    [queries, projectId, appName, runId],
  );
  const isWanted = !isOfServer(run) && (wasLive || isStream);
  const transcript = useTranscript(ids, { isWanted, isLive: wasLive, onEnd });
  return (
    <>
      <Failure run={run} traceback={logs ? tracebackOf(logs.lines, run.error?.message ?? "") : null} />
      <RunPlace run={run} />
      <RunProgress run={run} />
      <Timeline ids={ids} run={run} firstChunkMs={transcript.firstChunkMs} />
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <Input ids={ids} />
        <Output ids={ids} run={run} result={result} isStream={isStream} transcript={transcript} view={view} />
      </div>
      <RunLogs ids={ids} page={logs} error={logsError} isOver={isOver(run)} />
      <Facts ids={ids} run={run} />
    </>
  );
}

function NoSuchRun({ ids: { projectId, appName, runId } }: { readonly ids: RunIds }) {
  return (
    <Page title={appName}>
      <Empty title="The app has no such run">
        <p className="mb-2 font-mono text-[0.9rem] break-all">{runId}</p>
        Old runs are removed, by default after 30 days. See{" "}
        <Link
          to="/projects/$projectId/apps/$appName/runs"
          params={{ projectId, appName }}
          className="text-accent underline"
        >
          the runs of {appName}
        </Link>
        .
      </Empty>
    </Page>
  );
}

function Loading() {
  return (
    <>
      <Card title="Timeline">
        <Skeleton className="h-24 w-full" />
      </Card>
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <Card title="Input">
          <Skeleton className="h-24 w-full" />
        </Card>
        <Card title="Output">
          <Skeleton className="h-24 w-full" />
        </Card>
      </div>
    </>
  );
}
