import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useParams } from "@tanstack/react-router";
import { ApiError } from "../../api/answer.ts";
import { appQuery } from "../../api/apps.ts";
import { installation } from "../../api/installation.ts";
import { StateBadge } from "../../parts/badge.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Page } from "../../parts/page.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { Tabs } from "../../parts/tabs.tsx";

const APP = "/projects/$projectId/apps/$appName";

/** What an app's pages have in common: its name, its state, where it is called, and the way between them. */
export function AppPage() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const { data: app, error, refetch } = useQuery(appQuery(projectId, appName));
  const params = { projectId, appName };
  const isGone = error instanceof ApiError && error.status === 404;
  if (isGone) return <NoSuchApp projectId={projectId} appName={appName} />;
  const endpoint = `${installation.apiUrl}/v4/${projectId}/${appName}`;
  return (
    <Page
      title={appName}
      subtitle={
        <span className="flex min-w-0 flex-wrap items-center gap-2">
          {app ? <StateBadge state={app.status} /> : <Skeleton className="h-5.5 w-16" />}
          <code className="min-w-0 font-mono text-[0.88rem] break-all">{endpoint}</code>
          <Copy text={endpoint} label="Copy address" />
        </span>
      }
    >
      <Tabs
        label="App"
        tabs={[
          { title: "Overview", link: { to: APP, params } },
          { title: "Runs", link: { to: `${APP}/runs`, params } },
          { title: "Logs", link: { to: `${APP}/logs`, params } },
          { title: "Builds", link: { to: `${APP}/builds`, params, activeOptions: { includeSearch: false } } },
          { title: "Queue", link: { to: `${APP}/queue`, params } },
          { title: "Schedules", link: { to: `${APP}/schedules`, params } },
          { title: "Playground", link: { to: `${APP}/playground`, params } },
          { title: "Settings", link: { to: `${APP}/settings`, params } },
          { title: "Secrets", link: { to: `${APP}/secrets`, params } },
          { title: "Danger", link: { to: `${APP}/danger`, params } },
        ]}
      />
      {error && !app ? <Problem error={error} onRetry={() => void refetch()} /> : <Outlet />}
    </Page>
  );
}

function NoSuchApp({ projectId, appName }: { readonly projectId: string; readonly appName: string }) {
  return (
    <Page title={appName}>
      <Empty title="This project has no app with that name">
        It may have been deleted. See{" "}
        <Link to="/projects/$projectId/apps" params={{ projectId }} className="text-accent underline">
          the apps
        </Link>
        , or deploy it: <code className="wrap-anywhere">millrace deploy {appName}</code>
      </Empty>
    </Page>
  );
}
