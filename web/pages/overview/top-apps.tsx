import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import type { AppBrief } from "../../api/apps.ts";
import { trafficQuery } from "../../api/figures.ts";
import { Card } from "../../parts/card.tsx";
import { inOrder, orderAfter } from "../apps/app-order.ts";
import type { AppOrder, AppSort } from "../apps/app-order.ts";
import { AppTable } from "../apps/app-table.tsx";

const SHOWN = 5;
const BUSIEST: AppOrder = { by: "runs", order: "descending" };

/** The apps with the most runs of the last day, and the way to all of them. */
export function TopApps({
  projectId,
  apps,
}: {
  readonly projectId: string;
  readonly apps: readonly AppBrief[] | undefined;
}) {
  const navigate = useNavigate();
  const { data: traffic } = useQuery(trafficQuery(projectId));
  const byApp = traffic && new Map(traffic.items.map((item) => [item.appId, item]));
  const to = "/projects/$projectId/apps" as const;
  const sortBy = (by: AppSort): void =>
    void navigate({ to, params: { projectId }, search: { sort: orderAfter(by, BUSIEST) } });
  return (
    <Card
      title="Busiest apps"
      isFlush
      actions={
        <Link
          to={to}
          params={{ projectId }}
          search={{ sort: "-runs" }}
          className="text-accent underline-offset-2 hover:underline"
        >
          All apps
        </Link>
      }
    >
      <AppTable
        projectId={projectId}
        apps={apps && byApp && inOrder(apps, BUSIEST, byApp).slice(0, SHOWN)}
        traffic={byApp}
        order={BUSIEST}
        onSort={sortBy}
      />
    </Card>
  );
}
