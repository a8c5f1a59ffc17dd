import { useInfiniteQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { schedulesQuery } from "../../api/schedules.ts";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Problem } from "../../parts/problem.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Table } from "../../parts/table.tsx";
import { DeleteSchedule } from "./schedules/delete-schedule.tsx";
import { ScheduleRow } from "./schedules/schedule-row.tsx";

const COLUMNS = [
  { title: "Schedule" },
  { title: "Next times" },
  { title: "Last runs" },
  { title: "Actions", align: "right" },
] as const;

const EXAMPLE = '[[schedules]]\ncron = "0 3 * * *"\nfunction = "run"';

/** When an app's functions are called by themselves, and how that went. */
export function AppSchedules() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const query = useInfiniteQuery(schedulesQuery(projectId, appName));
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const [deleting, setDeleting] = useState<string | null>(null);
  const schedules = data?.pages.flatMap(({ items }) => items);
  return (
    <Card isFlush title="Schedules">
      {error && !schedules ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : schedules?.length === 0 ? (
        <Empty title="No schedules yet">
          <p className="mb-3">Add one to the app’s configuration, and deploy it:</p>
          <CodeBlock label="A schedule" text={EXAMPLE} />
        </Empty>
      ) : (
        <Table columns={COLUMNS} label="Schedules">
          {schedules?.map((schedule) => (
            <ScheduleRow
              key={schedule.name}
              projectId={projectId}
              appName={appName}
              schedule={schedule}
              onDelete={() => setDeleting(schedule.name)}
            />
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
      <DeleteSchedule
        projectId={projectId}
        appName={appName}
        name={deleting}
        onClose={() => setDeleting(null)}
      />
    </Card>
  );
}
