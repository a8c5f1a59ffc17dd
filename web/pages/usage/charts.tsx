import type { ReactNode } from "react";
import type { ProjectUsage, UsageRecord } from "../../api/usage.ts";
import { Card } from "../../parts/card.tsx";
import type { Axis } from "../../parts/charts/frame.tsx";
import { Legend } from "../../parts/charts/legend.tsx";
import { Lines } from "../../parts/charts/lines.tsx";
import type { Series } from "../../parts/charts/series.ts";
import { StackedBars } from "../../parts/charts/stacked-bars.tsx";
import { count, span } from "../../parts/format.ts";

type Outcome = "succeeded" | "failed" | "cancelled";
const OUTCOMES: readonly Series<Outcome>[] = [
  { name: "succeeded", title: "succeeded", colour: "var(--chart-1)" },
  { name: "failed", title: "failed", colour: "var(--chart-2)" },
  { name: "cancelled", title: "cancelled", colour: "var(--chart-3)" },
];

type Time = "run" | "cpu" | "gpu" | "held";
const TIMES: readonly (Series<Time> & { readonly of: (used: UsageRecord) => number })[] = [
  {
    name: "run",
    title: "inside functions",
    colour: "var(--chart-1)",
    of: ({ runSeconds }) => runSeconds,
  },
  {
    name: "cpu",
    title: "processors of replicas",
    colour: "var(--chart-3)",
    of: ({ replicas }) => replicas?.cpuSeconds ?? 0,
  },
  { name: "gpu", title: "GPUs of calls", colour: "var(--chart-2)", of: ({ gpuSeconds }) => gpuSeconds },
  {
    name: "held",
    title: "GPUs of replicas",
    colour: "var(--chart-4)",
    of: ({ replicas }) => replicas?.gpuSeconds ?? 0,
  },
];

type Tokens = "input" | "output";
const TOKENS: readonly Series<Tokens>[] = [
  { name: "input", title: "in", colour: "var(--chart-1)" },
  { name: "output", title: "out", colour: "var(--chart-4)" },
];

const DAY_MS = 86_400_000;
/** A day of the chart begins so long after the viewer's midnight: then no change of clocks moves it to the day before. */
const SLACK_HOURS = 2;

/** Calls, times and tokens of each day. */
export function UsageCharts({ usage }: { readonly usage: ProjectUsage }) {
  const axis = axisOf(usage);
  const byDay = new Map(usage.items.map((used) => [used.day, used]));
  const days = Array.from({ length: axis.steps }, (_, step) => byDay.get(dateAt(usage, step)) ?? null);
  const times = TIMES.filter(({ of }) => days.some((used) => used && of(used) > 0));
  const hasTokens = days.some((used) => used && used.inputTokens + used.outputTokens > 0);
  const calls = usage.items.reduce((sum, used) => sum + used.calls, 0);
  const titleOf = (what: string): string => `${what}, day by day from ${usage.from} to ${usage.to}`;
  return (
    <>
      <Chart title="Calls by day" series={OUTCOMES}>
        <StackedBars
          label={`${titleOf("Calls")}; ${count(calls)} in all.`}
          axis={axis}
          series={OUTCOMES}
          values={days.map((used) => used ?? { succeeded: 0, failed: 0, cancelled: 0 })}
          empty="No calls in these days."
        />
      </Chart>
      {times.length > 0 && (
        <Chart title="Time by day" series={times}>
          <Lines
            label={`${titleOf("Time of calls and replicas")}.`}
            axis={axis}
            series={times}
            values={days.map((used) => timesOf(used))}
            format={(ms) => span(ms)}
            empty="No call ran in these days."
          />
        </Chart>
      )}
      {hasTokens && (
        <Chart title="Tokens by day" series={TOKENS}>
          <StackedBars
            label={`${titleOf("Tokens that models took in and gave out")}.`}
            axis={axis}
            series={TOKENS}
            values={days.map((used) => ({ input: used?.inputTokens ?? 0, output: used?.outputTokens ?? 0 }))}
            empty="No tokens in these days."
          />
        </Chart>
      )}
    </>
  );
}

function Chart({
  title,
  series,
  children,
}: {
  readonly title: string;
  readonly series: readonly Series[];
  readonly children: ReactNode;
}) {
  return (
    <Card title={title}>
      <Legend series={series} />
      {children}
    </Card>
  );
}

/** A time in milliseconds, in the units that other pages use. */
function timesOf(used: UsageRecord | null): Record<Time, number> {
  const ms = TIMES.map(({ name, of }) => [name, used ? of(used) * 1000 : 0] as const);
  return Object.fromEntries(ms) as Record<Time, number>;
}

/** Days in UTC are drawn as days of the viewer. */
function axisOf({ from, to }: ProjectUsage): Axis {
  const first = new Date(`${from}T00:00`);
  const steps = Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1;
  return { fromMs: first.setHours(SLACK_HOURS), stepMs: DAY_MS, steps };
}

function dateAt({ from }: ProjectUsage, step: number): string {
  return new Date(Date.parse(from) + step * DAY_MS).toISOString().slice(0, from.length);
}
