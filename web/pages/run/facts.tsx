import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { buildsQuery, shortId } from "../../api/builds.ts";
import { isOfServer } from "../../api/runs.ts";
import type { Run, RunIds } from "../../api/runs.ts";
import { StateBadge } from "../../parts/badge.tsx";
import { Card } from "../../parts/card.tsx";
import { bytes, span } from "../../parts/format.ts";
import { Time } from "../../parts/time.tsx";
import { StatusCode } from "../runs/run-row.tsx";
import { Fact } from "../../parts/fact.tsx";

/** What is on record of a run. */
export function Facts({ ids, run }: { readonly ids: RunIds; readonly run: Run }) {
  const { projectId, runId } = ids;
  return (
    <Card title="Facts">
      <dl className="grid grid-cols-[repeat(auto-fill,minmax(9.5rem,1fr))] gap-x-6 gap-y-3">
        <Fact title="Status code">
          <StatusCode code={run.statusCode} />
        </Fact>
        <Fact title="Mode">{run.websocket ? "WebSocket" : run.async ? "async" : "sync"}</Fact>
        {isOfServer(run) && (
          <>
            <Fact title="Method">{run.method}</Fact>
            <Fact title="Path">
              <span className="font-mono text-[0.9rem] break-all">{run.functionName}</span>
            </Fact>
            <Fact title="Server got">{run.requestBytes === null ? "–" : bytes(run.requestBytes)}</Fact>
            <Fact title="Server sent">{run.responseBytes === null ? "–" : bytes(run.responseBytes)}</Fact>
          </>
        )}
        {run.schedule && (
          <Fact title="Schedule">
            {run.schedule.name}, <Time at={run.schedule.time} />
          </Fact>
        )}
        {run.position !== undefined && <Fact title="Position">{run.position}</Fact>}
        <Fact title="Attempt">
          {run.maxAttempts === undefined ? run.attempt : `${run.attempt} of ${run.maxAttempts}`}
        </Fact>
        {run.priority !== undefined && <Fact title="Priority">{headStart(run.priority)}</Fact>}
        {run.tags !== undefined && <Fact title="Tags">{run.tags.join(", ")}</Fact>}
        {run.traceId !== undefined && (
          <Fact title="Trace">
            <span className="font-mono text-[0.9rem] break-all">{run.traceId}</span>
          </Fact>
        )}
        {run.checkpoint !== undefined && (
          <Fact title="Checkpoint">
            <Time at={run.checkpoint.at} />
          </Fact>
        )}
        <Fact title="Accepted">
          <Time at={run.createdAt} />
        </Fact>
        {run.dueAt !== undefined && (
          <Fact title="Begins">
            <Time at={run.dueAt} />
          </Fact>
        )}
        {run.startBy !== undefined && run.startedAt === null && (
          <Fact title="Begins before">
            <Time at={run.startBy} />
          </Fact>
        )}
        {run.endBy !== undefined && run.completedAt === null && (
          <Fact title="Ends before">
            <Time at={run.endBy} />
          </Fact>
        )}
        <Fact title="Started">
          <Time at={run.startedAt} />
        </Fact>
        <Fact title="Ended">
          <Time at={run.completedAt} />
        </Fact>
        <Fact title="Queued for">{span(run.queueTimeMs)}</Fact>
        <Fact title="Ran for">{span(run.runtimeMs)}</Fact>
        <Fact title="Answered after">{span(run.responseTimeMs)}</Fact>
        <Fact title="Version">
          <VersionLink ids={ids} buildId={run.buildId ?? null} />
        </Fact>
        <Fact title="Replica">
          {run.containerId === null ? (
            "–"
          ) : (
            <Link
              to="/projects/$projectId/apps/$appName/logs"
              params={ids}
              search={{ replica: run.containerId }}
              title="The log of this replica"
              className="font-mono text-[0.9rem] text-accent underline-offset-2 hover:underline"
            >
              {run.containerId}
            </Link>
          )}
        </Fact>
        <Fact title="Caller">{run.ip ?? "–"}</Fact>
        {run.user !== undefined && (
          <>
            <Fact title="User">{run.user}</Fact>
            <Fact title="Account">
              <span className="font-mono text-[0.9rem]">{run.accountId}</span>
            </Fact>
          </>
        )}
        {run.webhookEndpoint !== null && (
          <Fact title="Webhook" isWide>
            <span className="flex flex-wrap items-center gap-2">
              <StateBadge state={run.webhookStatus} />
              <span className="min-w-0 break-all">{run.webhookEndpoint}</span>
              {run.completedAt !== null && (
                <Link
                  to="/projects/$projectId/webhooks/$deliveryId"
                  params={{ projectId, deliveryId: runId }}
                  className="text-accent underline"
                >
                  Delivery
                </Link>
              )}
            </span>
          </Fact>
        )}
      </dl>
    </Card>
  );
}

/** The version that ran it, with the way to its build. */
function VersionLink({ ids, buildId }: { readonly ids: RunIds; readonly buildId: string | null }) {
  const { data: builds } = useQuery(buildsQuery(ids.projectId, ids.appName));
  if (buildId === null) return "–";
  const version = builds?.find(({ id }) => id === buildId)?.version ?? null;
  return (
    <Link
      to="/projects/$projectId/apps/$appName/builds/$buildId"
      params={{ ...ids, buildId }}
      className="text-accent underline-offset-2 hover:underline"
    >
      {version === null ? "" : `${version}, `}build{" "}
      <span className="font-mono text-[0.9rem]">{shortId(buildId)}</span>
    </Link>
  );
}

/** How far a run goes ahead of others, or lets them go ahead. */
function headStart(seconds: number): string {
  return seconds > 0 ? `${seconds} s ahead` : `${-seconds} s behind`;
}
