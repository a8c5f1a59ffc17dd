import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { changeQueue, queueHistoryQuery, queueQuery } from "../../api/queues.ts";
import type { QueueChange, QueueHistoryRecord, QueueRecord } from "../../api/queues.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Legend } from "../../parts/charts/legend.tsx";
import type { Series } from "../../parts/charts/series.ts";
import { StackedBars } from "../../parts/charts/stacked-bars.tsx";
import { Fact } from "../../parts/fact.tsx";
import { count } from "../../parts/format.ts";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { Time } from "../../parts/time.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";
import { useDeployMarks } from "./deploy-marks.ts";
import { QueueLimits } from "./queue/limits.tsx";

type Priority = "high" | "normal" | "low";
const PRIORITIES: readonly Series<Priority>[] = [
  { name: "high", title: "high priority", colour: "var(--chart-4)" },
  { name: "normal", title: "normal", colour: "var(--chart-1)" },
  { name: "low", title: "low", colour: "var(--chart-3)" },
];
const DONE: Readonly<Record<QueueChange, string>> = {
  pause: "The queue is paused: runs are accepted and wait.",
  resume: "The queue is open.",
  drain: "The queue is draining: it accepts no runs.",
};
/** Bars of a minute: as many as can be told apart. */
const STEPS_PER_BAR = 6;

/** The async runs of an app that wait: how many, for how long, and what holds them up. */
export function AppQueue() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const { data: queue, error, refetch } = useQuery(queueQuery(projectId, appName));
  const { data: history } = useQuery(queueHistoryQuery(projectId, appName));
  const marks = useDeployMarks(projectId, appName);
  const queries = useQueryClient();
  const { mutate, isPending } = useMutation({
    mutationFn: (change: QueueChange) => changeQueue(projectId, appName, change),
    onSuccess: async (_, change) => {
      await queries.invalidateQueries({ queryKey: queueQuery(projectId, appName).queryKey });
      tell(DONE[change]);
    },
    onError: tellError,
  });
  if (error && !queue) return <Problem error={error} onRetry={() => void refetch()} />;
  return (
    <>
      <Card
        title="Queue"
        actions={
          queue &&
          changesOf(queue.state).map(({ change, title }) => (
            <Button key={change} size="small" isBusy={isPending} onClick={() => mutate(change)}>
              {title}
            </Button>
          ))
        }
      >
        {queue ? <QueueFacts queue={queue} history={history} /> : <Skeleton className="h-12 w-full" />}
      </Card>
      <Card title="Waiting in the last hour">
        <Legend series={PRIORITIES} />
        {history ? (
          <StackedBars
            label={`How many runs waited in the last hour, minute by minute; now ${count(queue?.waiting ?? 0)}.`}
            axis={axisOf(history)}
            series={PRIORITIES}
            values={barsOf(history)}
            marks={marks}
            empty="No run has waited in the last hour."
          />
        ) : (
          <Skeleton className="h-[220px]" />
        )}
      </Card>
      {queue && <QueueLimits limits={queue.limits} />}
    </>
  );
}

function changesOf(state: QueueRecord["state"]): { readonly change: QueueChange; readonly title: string }[] {
  if (state !== "open") return [{ change: "resume", title: "Resume" }];
  return [
    { change: "drain", title: "Drain" },
    { change: "pause", title: "Pause" },
  ];
}

function QueueFacts({
  queue,
  history,
}: {
  readonly queue: QueueRecord;
  readonly history: QueueHistoryRecord | undefined;
}) {
  const { waiting, hasMore, byPriority, oldestAt, running, parked, state, changedAt } = queue;
  return (
    <dl className="grid grid-cols-2 gap-4 sm:grid-cols-4">
      <Fact title="State">
        <span className="inline-flex flex-wrap items-center gap-x-2">
          <Badge tone={state === "open" ? "good" : "warn"}>{state}</Badge>
          {changedAt !== null && state !== "open" && <Time at={changedAt} />}
        </span>
      </Fact>
      <Fact title="Waiting">{`${count(waiting)}${hasMore ? "+" : ""}`}</Fact>
      <Fact title="High · normal · low">
        {[byPriority.high, byPriority.normal, byPriority.low].map((each) => count(each)).join(" · ")}
      </Fact>
      <Fact title="Oldest">
        <Time at={oldestAt} />
      </Fact>
      <Fact title="Held by their key">{count(parked)}</Fact>
      <Fact title="Running">{count(running)}</Fact>
      <Fact title="Began in the last minute">{history ? count(begunLately(history)) : "–"}</Fact>
    </dl>
  );
}

function begunLately({ steps }: QueueHistoryRecord): number {
  return steps.slice(-STEPS_PER_BAR).reduce((sum, { begun }) => sum + begun, 0);
}

function axisOf({ from, stepMs, steps }: QueueHistoryRecord) {
  return {
    fromMs: Date.parse(from),
    stepMs: stepMs * STEPS_PER_BAR,
    steps: Math.ceil(steps.length / STEPS_PER_BAR),
  };
}

/** The most that waited at once in each minute. */
function barsOf({ steps }: QueueHistoryRecord): Record<Priority, number>[] {
  const bars = Math.ceil(steps.length / STEPS_PER_BAR);
  return Array.from({ length: bars }, (_, bar) => {
    const some = steps.slice(bar * STEPS_PER_BAR, (bar + 1) * STEPS_PER_BAR);
    const most = (name: Priority): number => Math.max(0, ...some.map((step) => step[name]));
    return { high: most("high"), normal: most("normal"), low: most("low") };
  });
}
