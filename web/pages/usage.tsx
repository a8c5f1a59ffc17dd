import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { daysUntilNow, DEFAULT_DAYS, USAGE_DAYS, USAGE_TABLES, usageCsv, usageQuery } from "../api/usage.ts";
import type { UsageDays, UsageTable } from "../api/usage.ts";
import { Button } from "../parts/button.tsx";
import { Card } from "../parts/card.tsx";
import { classes } from "../parts/classes.ts";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { saveText } from "../parts/save-text.ts";
import { Skeleton } from "../parts/skeleton.tsx";
import { tellError } from "../parts/toasts.tsx";
import { UsageCharts } from "./usage/charts.tsx";
import { UsageRows } from "./usage/rows.tsx";
import { UsageTotals } from "./usage/totals.tsx";

/** What the calls and replicas of a project used, day by day, and by app, token or tag. */
export function Usage() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const { days = DEFAULT_DAYS, by = "app" } = useSearch({ from: "/gate/projects/$projectId/usage" });
  const { data: usage, error, refetch } = useQuery(usageQuery(projectId, days, "day"));
  const { mutate: save, isPending } = useMutation({
    mutationFn: () => usageCsv(projectId, days, by),
    onSuccess: (text) => {
      const { from, to } = daysUntilNow(days);
      saveText(`usage-${projectId}-${from}-${to}.csv`, text);
    },
    onError: tellError,
  });
  return (
    <Page
      title="Usage"
      subtitle="What calls and replicas used, by day in UTC."
      actions={
        <>
          <Choices
            label="Days"
            projectId={projectId}
            choices={USAGE_DAYS.map((each) => ({ key: each, title: `${each} days`, days: each, by }))}
            chosen={days}
          />
          <Button onClick={() => save()} isBusy={isPending}>
            Save as CSV
          </Button>
        </>
      }
    >
      {error && !usage ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : usage ? (
        <>
          <UsageTotals usage={usage} />
          <UsageCharts usage={usage} />
        </>
      ) : (
        <Skeleton className="h-[220px] w-full" />
      )}
      <Card
        isFlush
        title="In these days"
        actions={
          <Choices
            label="Add up by"
            projectId={projectId}
            choices={USAGE_TABLES.map((each) => ({ key: each, title: `by ${each}`, days, by: each }))}
            chosen={by}
          />
        }
      >
        <UsageRows projectId={projectId} days={days} by={by} />
      </Card>
    </Page>
  );
}

type Choice = {
  readonly key: string | number;
  readonly title: string;
  readonly days: UsageDays;
  readonly by: UsageTable;
};

/** One of a few things to look at; each is an address. */
function Choices({
  label,
  projectId,
  choices,
  chosen,
}: {
  readonly label: string;
  readonly projectId: string;
  readonly choices: readonly Choice[];
  readonly chosen: string | number;
}) {
  return (
    <nav aria-label={label} className="flex rounded-md border border-line-strong bg-surface p-0.5">
      {choices.map(({ key, title, days, by }) => (
        <Link
          key={key}
          to="/projects/$projectId/usage"
          params={{ projectId }}
          search={{ ...(days !== DEFAULT_DAYS && { days }), ...(by !== "app" && { by }) }}
          replace
          resetScroll={false}
          aria-current={key === chosen ? "true" : undefined}
          className={classes(
            "tabular rounded px-2.5 py-1 text-[0.92rem] whitespace-nowrap",
            key === chosen ? "bg-accent-soft font-medium text-accent" : "text-ink-soft hover:text-ink",
          )}
        >
          {title}
        </Link>
      ))}
    </nav>
  );
}
