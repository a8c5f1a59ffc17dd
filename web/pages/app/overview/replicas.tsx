import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { appQuery } from "../../../api/apps.ts";
import { evictionsQuery, replicasQuery } from "../../../api/replicas.ts";
import type { Replica } from "../../../api/replicas.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Card } from "../../../parts/card.tsx";
import { bytes, count, span } from "../../../parts/format.ts";
import { plainLine } from "../../../parts/plain-line.ts";
import { Problem } from "../../../parts/problem.tsx";
import { SkeletonRows } from "../../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../../parts/table.tsx";
import { Time } from "../../../parts/time.tsx";

const COLUMNS = [
  { title: "Replica" },
  { title: "State" },
  { title: "GPU" },
  { title: "Started", isMinor: true },
  { title: "Ready for", align: "right" },
] as const;
/** An app may have two thousand. */
const MAX_SHOWN = 50;

type Props = { readonly projectId: string; readonly appName: string };

/** The processes that take an app's calls. */
export function Replicas({ projectId, appName }: Props) {
  const { data: replicas, error, refetch } = useQuery(replicasQuery(projectId, appName));
  const hidden = (replicas?.length ?? 0) - MAX_SHOWN;
  return (
    <Card title="Replicas" isFlush>
      {error && !replicas ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : replicas?.length === 0 ? (
        <p className="px-4 py-6 text-ink-soft">
          None now. The next call starts one; with min_replicas above 0 some are always ready.
        </p>
      ) : (
        <Table columns={COLUMNS} label="Replicas">
          {replicas?.slice(0, MAX_SHOWN).map((replica) => (
            <Row key={replica.containerId}>
              <Cell className="max-w-80 truncate font-mono text-[0.9rem]">
                <Link
                  to="/projects/$projectId/apps/$appName/logs"
                  params={{ projectId, appName }}
                  search={{ replica: replica.containerId }}
                  title={`The log of ${replica.containerId}`}
                  className="underline-offset-2 hover:text-accent hover:underline"
                >
                  {replica.containerId}
                </Link>
              </Cell>
              <Cell>
                <ReplicaState replica={replica} />
              </Cell>
              <Cell>
                <Gpus gpus={replica.gpus ?? []} />
              </Cell>
              <Cell isMinor>
                <Time at={replica.containerStartTimestamp} />
                {typeof replica.setupMs === "number" && (
                  <p className="text-[0.9rem] text-ink-soft">setup() took {span(replica.setupMs)}</p>
                )}
              </Cell>
              <Cell align="right">
                {replica.containerState === "PENDING" ? "–" : span(replica.containerRunningTimeMs)}
              </Cell>
            </Row>
          )) ?? <SkeletonRows rows={2} columns={COLUMNS.length} />}
        </Table>
      )}
      {hidden > 0 && (
        <p className="border-t border-line px-4 py-2.5 text-ink-faint">and {count(hidden)} more</p>
      )}
      <Evictions projectId={projectId} appName={appName} />
    </Card>
  );
}

/** Its GPUs, with its share of each if that is not all of it, and what it uses. */
function Gpus({ gpus }: { readonly gpus: NonNullable<Replica["gpus"]> }) {
  if (gpus.length === 0) return "–";
  return (
    <ul>
      {gpus.map(({ uuid, model, memoryBytes, ownUsedBytes = null }) => (
        <li key={uuid}>
          {model ?? "gone"} {memoryBytes !== null && `(${bytes(memoryBytes)}) `}
          {ownUsedBytes !== null && <span className="text-ink-soft">uses {bytes(ownUsedBytes)} </span>}
          <span className="block max-w-60 truncate font-mono text-[0.82rem] text-ink-soft" title={uuid}>
            {uuid}
          </span>
        </li>
      ))}
    </ul>
  );
}

function ReplicaState({ replica }: { readonly replica: Replica }) {
  if (replica.isTerminating)
    return <WithReason badge={<Badge>draining</Badge>} reason={replica.stopReason} />;
  if (replica.containerState === "PENDING")
    return <WithReason badge={<Badge tone="busy">starting</Badge>} reason={replica.pendingReason} />;
  return replica.containerState === "RUNNING" ? (
    <Badge tone="good">ready</Badge>
  ) : (
    <Badge tone="bad">{replica.containerState.toLowerCase()}</Badge>
  );
}

/** With why it does not start, or is being ended, where that is known. */
function WithReason({
  badge,
  reason,
}: {
  readonly badge: ReactNode;
  readonly reason: string | null | undefined;
}) {
  return (
    <>
      {badge}
      {reason && <p className="mt-1 max-w-120 text-[0.9rem] text-ink-soft">{reason}</p>}
    </>
  );
}

/** Which of its replicas were ended because another app needed their GPUs. */
function Evictions({ projectId, appName }: Props) {
  const { data: app } = useQuery(appQuery(projectId, appName));
  const enabled = Number(app?.gpuCount ?? 0) > 0;
  const { data: evictions = [] } = useQuery({ ...evictionsQuery(projectId, appName), enabled });
  if (evictions.length === 0) return null;
  return (
    <section className="border-t border-line px-4 py-3">
      <h3 className="mb-1 font-medium">Replicas that made room for another app</h3>
      <ul aria-label="Evictions" className="flex flex-col gap-0.5">
        {evictions.map(({ timestamp, text }) => (
          <li key={timestamp} className="flex flex-wrap gap-x-3">
            <span className="text-ink-soft">
              <Time at={timestamp} />
            </span>
            <span className="min-w-0 wrap-anywhere">{plainLine(text)}</span>
          </li>
        ))}
      </ul>
      <Link
        to="/projects/$projectId/apps/$appName/logs"
        params={{ projectId, appName }}
        search={{ search: "evicted for" }}
        className="mt-1 inline-block text-accent underline-offset-2 hover:underline"
      >
        All in its log
      </Link>
    </section>
  );
}
