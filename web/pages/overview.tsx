import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { appsQuery } from "../api/apps.ts";
import { DEFAULT_RANGE } from "../api/figures.ts";
import { Page } from "../parts/page.tsx";
import { FiguresView } from "./overview/figures-view.tsx";
import { FirstApp } from "./overview/first-app.tsx";
import { TopApps } from "./overview/top-apps.tsx";
import { RangePicker } from "./overview/range-picker.tsx";

/** How a project is doing; how to begin, while it has no apps. */
export function Overview() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const { range = DEFAULT_RANGE } = useSearch({ from: "/gate/projects/$projectId/" });
  const { data: apps } = useQuery(appsQuery(projectId));
  if (apps?.length === 0) {
    return (
      <Page title="Overview" subtitle="This project has no apps yet.">
        <FirstApp projectId={projectId} />
      </Page>
    );
  }
  return (
    <Page
      title="Overview"
      actions={<RangePicker range={range} link={{ to: "/projects/$projectId", params: { projectId } }} />}
    >
      <FiguresView
        projectId={projectId}
        range={range}
        empty="No runs in this time. Call an app, or look further back."
      />
      <TopApps projectId={projectId} apps={apps} />
    </Page>
  );
}
