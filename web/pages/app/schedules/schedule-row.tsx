import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { pauseSchedule, runSchedule, schedulesQuery } from "../../../api/schedules.ts";
import type { FiringRecord, ScheduleRecord } from "../../../api/schedules.ts";
import { Badge, StateBadge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { Time } from "../../../parts/time.tsx";
import { Cell, Row } from "../../../parts/table.tsx";
import { tell, tellError } from "../../../parts/toasts.tsx";

/** A schedule: when it fires, what came of it, and what can be done with it. */
export function ScheduleRow({
  projectId,
  appName,
  schedule,
  onDelete,
}: {
  readonly projectId: string;
  readonly appName: string;
  readonly schedule: ScheduleRecord;
  readonly onDelete: () => void;
}) {
  const { name, source, cron, timezone, paused, nextTimes, lastRuns } = schedule;
  const key = { projectId, appName, name };
  const queries = useQueryClient();
  const refresh = async (): Promise<void> =>
    await queries.invalidateQueries({ queryKey: schedulesQuery(projectId, appName).queryKey });
  const pause = useMutation({
    mutationFn: () => pauseSchedule(key, !paused),
    onSuccess: async () => {
      await refresh();
      tell(paused ? `${name} is resumed.` : `${name} is paused.`);
    },
    onError: tellError,
  });
  const run = useMutation({
    mutationFn: () => runSchedule(key),
    onSuccess: async () => {
      await refresh();
      tell(`${name} has started a run.`);
    },
    onError: tellError,
  });
  return (
    <Row className="align-top">
      <Cell className="py-2.5">
        <span className="flex items-center gap-2 font-medium">
          {name}
          {paused && <Badge tone="warn">paused</Badge>}
          {source === "api" && <Badge>not in the app’s file</Badge>}
        </span>
        <span className="mt-0.5 block text-ink-soft">
          <code className="font-mono text-[0.9rem]">{cron}</code> {timezone}
        </span>
        <span className="block text-ink-soft">
          calls <code className="font-mono text-[0.9rem]">{schedule.function}</code>
        </span>
      </Cell>
      <Cell className="py-2.5">
        {nextTimes.length === 0 ? (
          <span className="text-ink-faint">–</span>
        ) : (
          <ul>
            {nextTimes.map((time) => (
              <li key={time}>
                <Time at={time} />
              </li>
            ))}
          </ul>
        )}
      </Cell>
      <Cell className="py-2.5">
        {lastRuns.length === 0 ? (
          <span className="text-ink-faint">none yet</span>
        ) : (
          <ul className="flex flex-col gap-1">
            {lastRuns.map((firing) => (
              <li key={firing.time} className="flex items-center gap-2">
                <LastRun projectId={projectId} appName={appName} firing={firing} />
              </li>
            ))}
          </ul>
        )}
      </Cell>
      <Cell align="right" className="py-2.5">
        <span className="inline-flex gap-1.5">
          <Button
            size="small"
            aria-label={`Run ${name} now`}
            isBusy={run.isPending}
            onClick={() => run.mutate()}
          >
            Run now
          </Button>
          <Button
            size="small"
            aria-label={`${paused ? "Resume" : "Pause"} ${name}`}
            isBusy={pause.isPending}
            onClick={() => pause.mutate()}
          >
            {paused ? "Resume" : "Pause"}
          </Button>
          {source === "api" && (
            <Button size="small" look="quiet" aria-label={`Delete ${name}`} onClick={onDelete}>
              Delete
            </Button>
          )}
        </span>
      </Cell>
    </Row>
  );
}

function LastRun({
  projectId,
  appName,
  firing: { time, status, manual, runId, runStatus },
}: {
  readonly projectId: string;
  readonly appName: string;
  readonly firing: FiringRecord;
}) {
  const mark = <StateBadge state={runStatus ?? status} />;
  return (
    <>
      {runId === null || runStatus === null ? (
        mark
      ) : (
        <Link
          to="/projects/$projectId/apps/$appName/runs/$runId"
          params={{ projectId, appName, runId }}
          aria-label={`Run of ${time}: ${runStatus}`}
        >
          {mark}
        </Link>
      )}
      <Time at={time} />
      {manual && <Badge>by hand</Badge>}
    </>
  );
}
