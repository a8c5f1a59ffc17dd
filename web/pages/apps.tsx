import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { appsQuery, nameOf } from "../api/apps.ts";
import type { AppBrief } from "../api/apps.ts";
import { trafficQuery } from "../api/figures.ts";
import { Button } from "../parts/button.tsx";
import { Card } from "../parts/card.tsx";
import { Empty } from "../parts/empty.tsx";
import { count } from "../parts/format.ts";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { inOrder, orderAfter, readAppOrder } from "./apps/app-order.ts";
import type { AppSort } from "./apps/app-order.ts";
import { AppTable } from "./apps/app-table.tsx";
import { SearchBox } from "./apps/search-box.tsx";
import { FirstApp } from "./overview/first-app.tsx";

/** So many are on one page. */
const PAGE_SIZE = 100;

/** The project's apps: what each is doing. */
export function Apps() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const { search = "", page = 1, sort } = useSearch({ from: "/gate/projects/$projectId/apps" });
  const navigate = useNavigate();
  const { data: apps, error, refetch } = useQuery(appsQuery(projectId));
  const { data: traffic } = useQuery(trafficQuery(projectId));
  const byApp = traffic && new Map(traffic.items.map((item) => [item.appId, item]));
  const order = readAppOrder(sort);
  const found = apps && inOrder(matching(projectId, apps, search), order, byApp);
  const shown = found?.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE);
  const to = "/projects/$projectId/apps" as const;
  const setSearch = (text: string): void => {
    const next = { ...(text && { search: text }), ...(sort && { sort }) };
    void navigate({ to, params: { projectId }, search: next, replace: true });
  };
  const sortBy = (by: AppSort): void => {
    const next = { ...(search && { search }), sort: orderAfter(by, order) };
    void navigate({ to, params: { projectId }, search: next, replace: true, resetScroll: false });
  };
  if (apps?.length === 0) {
    return (
      <Page title="Apps">
        <FirstApp projectId={projectId} />
      </Page>
    );
  }
  return (
    <Page
      title="Apps"
      subtitle={apps ? (apps.length === 1 ? "1 app" : `${count(apps.length)} apps`) : " "}
      actions={<SearchBox label="Search apps" text={search} onChange={setSearch} />}
    >
      <Card isFlush>
        {error && !apps ? (
          <Problem error={error} onRetry={() => void refetch()} />
        ) : shown?.length === 0 ? (
          <Empty title={search === "" ? "There is no such page" : "No app name contains that"}>
            <Button onClick={() => setSearch("")}>Show all {count(apps?.length ?? 0)}</Button>
          </Empty>
        ) : (
          <AppTable projectId={projectId} apps={shown} traffic={byApp} order={order} onSort={sortBy} />
        )}
        {found && found.length > PAGE_SIZE && (
          <Pager projectId={projectId} search={search} sort={sort} page={page} total={found.length} />
        )}
      </Card>
    </Page>
  );
}

function matching(projectId: string, apps: readonly AppBrief[], search: string): AppBrief[] {
  const wanted = search.trim().toLowerCase();
  return apps.filter(({ id }) => nameOf(projectId, id).includes(wanted));
}

function Pager({
  projectId,
  search,
  sort,
  page,
  total,
}: {
  readonly projectId: string;
  readonly search: string;
  readonly sort: string | undefined;
  readonly page: number;
  readonly total: number;
}) {
  const first = (page - 1) * PAGE_SIZE + 1;
  const last = Math.min(total, page * PAGE_SIZE);
  const to = (other: number, title: string, isThere: boolean) =>
    isThere ? (
      <Link
        to="/projects/$projectId/apps"
        params={{ projectId }}
        search={{ ...(search && { search }), ...(sort && { sort }), ...(other > 1 && { page: other }) }}
        className="text-accent underline-offset-2 hover:underline"
      >
        {title}
      </Link>
    ) : (
      <span className="text-ink-faint">{title}</span>
    );
  return (
    <nav
      aria-label="Pages"
      className="tabular flex flex-wrap items-center gap-4 border-t border-line px-4 py-2.5"
    >
      <span className="mr-auto text-ink-soft">
        {last < first ? "None" : `${count(first)} to ${count(last)}`} of {count(total)}
      </span>
      {to(page - 1, "Before", page > 1)}
      {to(page + 1, "Next", last < total)}
    </nav>
  );
}
