import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { type BatchIds, batchQuery, type BatchRecord, endedLines, isBatchOver } from "../../api/batches.ts";
import { StateBadge } from "../../parts/badge.tsx";
import { Card } from "../../parts/card.tsx";
import { Fact } from "../../parts/fact.tsx";
import { bytes, count } from "../../parts/format.ts";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { Time } from "../../parts/time.tsx";
import { BatchActions } from "./batches/batch-actions.tsx";

/** One batch: how far it is, what came of its lines, and what can be done with it. */
export function AppBatch() {
  const ids = useParams({ from: "/gate/projects/$projectId/apps/$appName/batches/$batchId" });
  const { data: batch, error, refetch } = useQuery(batchQuery(ids));
  if (error && !batch) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!batch) {
    return (
      <Card title={<Skeleton className="h-4 w-32" />}>
        <Skeleton className="h-10 w-full max-w-xl" />
      </Card>
    );
  }
  return (
    <div className="flex flex-col gap-4">
      <Card
        title={
          <span className="flex flex-wrap items-center gap-2">
            Batch <span className="font-mono text-[0.9rem] break-all">{batch.id}</span>
            <StateBadge state={batch.status} />
          </span>
        }
        actions={<BatchActions ids={ids} batch={batch} />}
      >
        <BatchProgress batch={batch} />
        <HeldUp queue={batch.queue} />
      </Card>
      <BatchFacts ids={ids} batch={batch} />
    </div>
  );
}

/** Why lines wait though nothing runs. */
function HeldUp({ queue }: Pick<BatchRecord, "queue">) {
  if (queue === null || queue === "open") return null;
  return (
    <p role="status" className="mt-2 rounded-md bg-warn-soft px-3 py-2 text-warn">
      {queue === "draining"
        ? "The app's queue is being drained: no further lines are put into it until it is resumed."
        : "The app's queue is paused: no line begins until it is resumed."}
    </p>
  );
}

/** How many lines have ended, and how: the parts of a bar. */
function BatchProgress({ batch }: { readonly batch: BatchRecord }) {
  const { total, succeeded, failed, cancelled, waiting, running, rate } = batch;
  const ended = endedLines(batch);
  const percent = total === 0 ? 0 : Math.floor((ended / total) * 100);
  const width = (lines: number) => ({ width: `${total === 0 ? 0 : (lines / total) * 100}%` });
  const leftSeconds = rate > 0 && !isBatchOver(batch) ? (total - ended) / rate : null;
  return (
    <>
      <div className="flex items-center gap-3">
        <div
          role="progressbar"
          aria-label="Lines that have ended"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={percent}
          className="flex h-2 flex-1 overflow-hidden rounded-full bg-line"
        >
          <div className="h-full bg-good" style={width(succeeded)} />
          <div className="h-full bg-bad" style={width(failed)} />
          <div className="h-full bg-ink-faint" style={width(cancelled)} />
        </div>
        <span className="tabular w-12 text-right">{percent} %</span>
      </div>
      <p className="tabular mt-2 flex flex-wrap justify-between gap-x-4 text-ink-soft">
        <span>
          {count(ended)} of {count(total)} lines have ended; {count(running)} run, {count(waiting)} wait
        </span>
        {leftSeconds !== null && (
          <span>
            {rate.toFixed(rate < 10 ? 1 : 0)} lines/s, about {duration(leftSeconds)} left
          </span>
        )}
      </p>
    </>
  );
}

function BatchFacts({ ids, batch }: { readonly ids: BatchIds; readonly batch: BatchRecord }) {
  const { functionName, succeeded, failed, cancelled, createdAt, uploadedAt, completedAt, retryOf } = batch;
  return (
    <Card title="Facts">
      <dl className="grid grid-cols-[repeat(auto-fill,minmax(9.5rem,1fr))] gap-x-6 gap-y-3">
        <Fact title="Function">
          <span className="font-mono text-[0.9rem]">{functionName}</span>
        </Fact>
        <Fact title="Succeeded">{count(succeeded)}</Fact>
        <Fact title="Failed">{count(failed)}</Fact>
        <Fact title="Cancelled">{count(cancelled)}</Fact>
        <Fact title="Size">{bytes(batch.bytes)}</Fact>
        <Fact title="Created">
          <Time at={createdAt} />
        </Fact>
        <Fact title="Uploaded">
          <Time at={uploadedAt} />
        </Fact>
        <Fact title="Ended">
          <Time at={completedAt} />
        </Fact>
        {retryOf !== null && (
          <Fact title="Retry of">
            <a
              className="font-mono text-[0.9rem] text-accent underline"
              href={`/projects/${ids.projectId}/apps/${ids.appName}/batches/${retryOf}`}
            >
              {retryOf.slice(-12)}
            </a>
          </Fact>
        )}
        {batch.webhookEndpoint !== null && (
          <Fact title="Webhook" isWide>
            <span className="font-mono text-[0.9rem] break-all">{batch.webhookEndpoint}</span>
          </Fact>
        )}
      </dl>
    </Card>
  );
}

function duration(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3_600)} h`;
}
