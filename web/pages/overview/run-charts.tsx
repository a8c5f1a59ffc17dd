import type { ReactNode } from "react";
import type { RunState } from "../../../src/model/run.ts";
import type { Figures } from "../../api/figures.ts";
import { Card } from "../../parts/card.tsx";
import { Legend } from "../../parts/charts/legend.tsx";
import { Lines } from "../../parts/charts/lines.tsx";
import type { Mark } from "../../parts/charts/frame.tsx";
import type { Series } from "../../parts/charts/series.ts";
import { StackedBars } from "../../parts/charts/stacked-bars.tsx";
import { count, span } from "../../parts/format.ts";
import { Skeleton } from "../../parts/skeleton.tsx";

/** What failed stands at the foot, where steps can be compared. */
const STATES: readonly Series<RunState | "callerErrors">[] = [
  { name: "failure", title: "failure", colour: "var(--chart-2)" },
  { name: "callerErrors", title: "caller’s error", colour: "var(--chart-6)" },
  { name: "cancelled", title: "cancelled", colour: "var(--chart-3)" },
  { name: "success", title: "success", colour: "var(--chart-1)" },
  { name: "running", title: "running", colour: "var(--chart-4)" },
  { name: "queued", title: "queued", colour: "var(--chart-5)" },
];
const PERCENTILES: readonly Series<"p50Ms" | "p95Ms" | "p99Ms">[] = [
  { name: "p50Ms", title: "p50", colour: "var(--chart-1)" },
  { name: "p95Ms", title: "p95", colour: "var(--chart-4)" },
  { name: "p99Ms", title: "p99", colour: "var(--chart-5)" },
];
const MINUTE_MS = 60_000;

/** Runs by state and their response times, step by step. */
export function RunCharts({
  figures: counted,
  marks,
  empty,
}: {
  readonly figures: Figures | undefined;
  /** What happened in between, such as deploys. */
  readonly marks: readonly Mark[];
  readonly empty: ReactNode;
}) {
  const figures = counted && { ...counted, steps: counted.steps.map(apart), total: apart(counted.total) };
  const axis = figures && {
    fromMs: Date.parse(figures.from),
    stepMs: figures.stepMs,
    steps: figures.steps.length,
  };
  return (
    <div className="grid gap-4 xl:grid-cols-2">
      <Card title={figures ? `Runs per ${stepName(figures.stepMs)}` : "Runs"}>
        <Legend series={STATES} />
        {figures && axis ? (
          <StackedBars
            label={runSentence(figures)}
            axis={axis}
            series={STATES}
            values={figures.steps}
            marks={marks}
            empty={empty}
          />
        ) : (
          <Skeleton className="h-[220px]" />
        )}
      </Card>
      <Card title="Response time">
        <Legend series={PERCENTILES} />
        {figures && axis ? (
          <Lines
            label={timeSentence(figures)}
            axis={axis}
            series={PERCENTILES}
            values={figures.steps}
            marks={marks}
            format={span}
            empty="No run has ended in this time."
          />
        ) : (
          <Skeleton className="h-[220px]" />
        )}
      </Card>
    </div>
  );
}

/** Failures without those that callers caused, which are a series of their own. */
function apart<Runs extends { readonly failure: number; readonly callerErrors: number }>(runs: Runs): Runs {
  return { ...runs, failure: runs.failure - runs.callerErrors };
}

function stepName(stepMs: number): string {
  const minutes = stepMs / MINUTE_MS;
  if (minutes === 1) return "minute";
  return minutes < 60 ? `${minutes} minutes` : minutes === 60 ? "hour" : `${minutes / 60} hours`;
}

function runSentence({ total, stepMs }: Figures): string {
  const states = STATES.map(({ name, title }) => `${count(total[name])} ${title}`).join(", ");
  return `Runs per ${stepName(stepMs)}: ${count(total.runs)} in all, ${states}`;
}

function timeSentence({ total }: Figures): string {
  return `Response times: p50 ${span(total.p50Ms)}, p95 ${span(total.p95Ms)}, p99 ${span(total.p99Ms)}`;
}
