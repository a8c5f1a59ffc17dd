import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { batchesQuery, type BatchRecord, endedLines, isBatchOver } from "../../api/batches.ts";
import { StateBadge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { Empty } from "../../parts/empty.tsx";
import { count } from "../../parts/format.ts";
import { Problem } from "../../parts/problem.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";

const COLUMNS = [
  { title: "Batch" },
  { title: "Status" },
  { title: "Function", isMinor: true },
  { title: "Lines", align: "right" },
  { title: "Ended", align: "right" },
  { title: "Failed", align: "right" },
  { title: "Created", align: "right" },
] as const;

const EXAMPLE = [
  'curl -X POST "$APP/run/batches" -H "Authorization: Bearer $TOKEN" \\',
  '  -H "Content-Type: application/jsonl" --data-binary @inputs.jsonl',
].join("\n");

/** The batches of an app, and how far each is. */
export function AppBatches() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const query = useInfiniteQuery(batchesQuery(projectId, appName));
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const batches = data?.pages.flatMap(({ items }) => items);
  return (
    <Card isFlush title="Batches">
      {error && !batches ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : batches?.length === 0 ? (
        <Empty title="No batches yet">
          <p className="mb-3">Send many calls as one file, a line of JSON for each:</p>
          <CodeBlock label="Upload" text={EXAMPLE} />
        </Empty>
      ) : (
        <Table columns={COLUMNS} label="Batches">
          {batches?.map((batch) => (
            <BatchRow key={batch.id} projectId={projectId} appName={appName} batch={batch} />
          )) ?? <SkeletonRows rows={3} columns={COLUMNS.length} />}
        </Table>
      )}
      {hasNextPage && (
        <div className="flex justify-center border-t border-line p-3">
          <Button size="small" isBusy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
    </Card>
  );
}

function BatchRow({
  projectId,
  appName,
  batch,
}: {
  readonly projectId: string;
  readonly appName: string;
  readonly batch: BatchRecord;
}) {
  const { id, status, functionName, total, failed, createdAt } = batch;
  const percent = total === 0 ? 0 : Math.floor((endedLines(batch) / total) * 100);
  return (
    <Row className="relative">
      <Cell className="font-mono text-[0.9rem]">
        <Link
          to="/projects/$projectId/apps/$appName/batches/$batchId"
          params={{ projectId, appName, batchId: id }}
          aria-label={`Batch ${id}`}
          title={id}
          className="text-accent underline-offset-2 after:absolute after:inset-0 hover:underline"
        >
          {id.slice(-12)}
        </Link>
      </Cell>
      <Cell>
        <StateBadge state={status} />
      </Cell>
      <Cell isMinor className="max-w-48 truncate font-mono text-[0.9rem] text-ink-soft">
        {functionName}
      </Cell>
      <Cell align="right">{count(total)}</Cell>
      <Cell align="right">{isBatchOver(batch) ? count(endedLines(batch)) : `${percent} %`}</Cell>
      <Cell align="right">{count(failed)}</Cell>
      <Cell align="right">
        <Time at={createdAt} />
      </Cell>
    </Row>
  );
}
