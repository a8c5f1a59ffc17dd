import { Link } from "@tanstack/react-router";
import type { ComponentProps } from "react";
import { nameOf } from "../../api/apps.ts";
import type { AppBrief } from "../../api/apps.ts";
import type { AppTraffic, Replicas } from "../../api/figures.ts";
import { StateBadge } from "../../parts/badge.tsx";
import { Sparkline } from "../../parts/charts/sparkline.tsx";
import { count, share, span } from "../../parts/format.ts";
import { Skeleton, SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { runsOf } from "./app-order.ts";
import type { AppOrder, AppSort, TrafficByApp } from "./app-order.ts";

type AppColumn = Omit<ComponentProps<typeof Table>["columns"][number], "onSort" | "sorted"> & {
  readonly sort?: AppSort;
};

const COLUMNS: readonly AppColumn[] = [
  { title: "Name", sort: "name" },
  { title: "Status", sort: "status" },
  { title: "Version", align: "right", isMinor: true },
  { title: "Replicas", align: "right", sort: "replicas" },
  { title: "Runs, 24 h", align: "right", sort: "runs" },
  {
    title: "Errors",
    align: "right",
    sort: "errors",
    hint: "The share of runs that failed, without callers’ mistakes",
  },
  {
    title: "p95",
    align: "right",
    isMinor: true,
    sort: "latency",
    hint: "95 % of the runs were answered faster",
  },
  { title: "Traffic", isMinor: true, hint: "Runs per hour, all apps to one scale" },
  { title: "Updated", isMinor: true, sort: "updated" },
];

/** Some apps, a row each; what they did comes after what they are. */
export function AppTable({
  projectId,
  apps,
  traffic: byApp,
  order,
  onSort,
}: {
  readonly projectId: string;
  readonly apps: readonly AppBrief[] | undefined;
  /** Undefined while it is on its way. */
  readonly traffic: TrafficByApp | undefined;
  readonly order: AppOrder;
  readonly onSort: (by: AppSort) => void;
}) {
  const columns = COLUMNS.map(({ sort, ...column }) => ({
    ...column,
    ...(sort && { onSort: () => onSort(sort), sorted: sort === order.by ? order.order : undefined }),
  }));
  // All to one scale: what is small beside another looks small.
  const top = Math.max(1, ...(apps ?? []).flatMap(({ id }) => byApp?.get(id)?.runs ?? []));
  return (
    <Table columns={columns} label="Apps">
      {apps?.map((app) => (
        <AppRow
          key={app.id}
          projectId={projectId}
          app={app}
          top={top}
          // One that came after the last look at the traffic had none.
          traffic={byApp && (byApp.get(app.id) ?? null)}
        />
      )) ?? <SkeletonRows columns={COLUMNS.length} />}
    </Table>
  );
}

function AppRow({
  projectId,
  app: { id, status, updatedAt },
  top,
  traffic,
}: {
  readonly projectId: string;
  readonly app: AppBrief;
  /** The most runs of an hour of any app in the list. */
  readonly top: number;
  /** Undefined while it is on its way. */
  readonly traffic: AppTraffic | null | undefined;
}) {
  const appName = nameOf(projectId, id);
  const known = <T,>(show: (traffic: AppTraffic | null) => T) =>
    traffic === undefined ? <Skeleton className="ml-auto h-3.5 w-8" /> : show(traffic);
  const runs = traffic ? runsOf(traffic) : 0;
  const failures = (traffic?.failures ?? []).reduce((all, value) => all + value, 0);
  return (
    <Row>
      <Cell className="w-1/3 max-w-60 truncate">
        <Link
          to="/projects/$projectId/apps/$appName"
          params={{ projectId, appName }}
          title={appName}
          className="font-medium underline-offset-2 hover:text-accent hover:underline"
        >
          {appName}
        </Link>
      </Cell>
      <Cell>
        <StateBadge state={status} />
      </Cell>
      <Cell align="right" isMinor>
        {known((item) => item?.version ?? "–")}
      </Cell>
      <Cell align="right">{known((item) => replicasText(item?.replicas))}</Cell>
      <Cell align="right">{known(() => count(runs))}</Cell>
      <Cell align="right" className={failures > 0 ? "text-bad" : "text-ink-soft"}>
        {known((item) => share(item?.errorRate ?? null))}
      </Cell>
      <Cell align="right" isMinor>
        {known((item) => span(item?.p95Ms))}
      </Cell>
      <Cell isMinor className="w-44">
        {traffic === undefined ? (
          <Skeleton className="h-7 w-40" />
        ) : (
          <Sparkline
            values={traffic?.runs ?? []}
            failures={traffic?.failures ?? []}
            top={top}
            label={`${runs === 1 ? "1 run" : `${count(runs)} runs`} in the last 24 hours, ${count(failures)} failed`}
          />
        )}
      </Cell>
      <Cell isMinor>
        <Time at={updatedAt} />
      </Cell>
    </Row>
  );
}

function replicasText(replicas: Replicas | undefined): string {
  const { ready = 0, starting = 0 } = replicas ?? {};
  return starting === 0 ? count(ready) : `${count(ready)} + ${count(starting)} starting`;
}
