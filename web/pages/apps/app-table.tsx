import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { nameOf } from "../../api/apps.ts";
import type { AppBrief } from "../../api/apps.ts";
import { trafficQuery } from "../../api/figures.ts";
import type { AppTraffic, Replicas } from "../../api/figures.ts";
import { StateBadge } from "../../parts/badge.tsx";
import { Sparkline } from "../../parts/charts/sparkline.tsx";
import { count } from "../../parts/format.ts";
import { Skeleton, SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";

const COLUMNS = [
  { title: "Name" },
  { title: "Status" },
  { title: "Version", align: "right", isMinor: true },
  { title: "Replicas", align: "right" },
  { title: "Runs, 24 h", align: "right" },
  { title: "Traffic", isMinor: true },
  { title: "Updated", isMinor: true },
] as const;

/** Some apps, a row each; what they did comes after what they are. */
export function AppTable({
  projectId,
  apps,
}: {
  readonly projectId: string;
  readonly apps: readonly AppBrief[] | undefined;
}) {
  const { data: traffic } = useQuery(trafficQuery(projectId));
  const byApp = traffic && new Map(traffic.items.map((item) => [item.appId, item]));
  return (
    <Table columns={COLUMNS} label="Apps">
      {apps?.map((app) => (
        <AppRow
          key={app.id}
          projectId={projectId}
          app={app}
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
  traffic,
}: {
  readonly projectId: string;
  readonly app: AppBrief;
  /** Undefined while it is on its way. */
  readonly traffic: AppTraffic | null | undefined;
}) {
  const appName = nameOf(projectId, id);
  const known = <T,>(show: (traffic: AppTraffic | null) => T) =>
    traffic === undefined ? <Skeleton className="ml-auto h-3.5 w-8" /> : show(traffic);
  const runs = sum(traffic?.runs);
  const failures = sum(traffic?.failures);
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
      <Cell isMinor className="w-44">
        {traffic === undefined ? (
          <Skeleton className="h-7 w-40" />
        ) : (
          <Sparkline
            values={traffic?.runs ?? []}
            failures={traffic?.failures ?? []}
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

function sum(values: readonly number[] = []): number {
  return values.reduce((all, value) => all + value, 0);
}
