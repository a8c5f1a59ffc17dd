import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { readRunSearch } from "../../api/run-search.ts";
import { BulkActions } from "../runs/bulk-actions.tsx";
import { RunFilters } from "../runs/filters.tsx";
import type { SearchChange } from "../runs/filters.tsx";
import { NoRuns } from "../runs/no-runs.tsx";
import { RunTable } from "../runs/run-table.tsx";

/** One app's runs. */
export function AppRuns() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const { app: _, ...search } = useSearch({ from: "/gate/projects/$projectId/apps/$appName/runs" });
  const navigate = useNavigate();
  const params = { projectId, appName };
  const setSearch = (change: SearchChange): void => {
    const to = "/projects/$projectId/apps/$appName/runs" as const;
    void navigate({ to, params, search: (last) => change(readRunSearch(last)), replace: true });
  };
  return (
    <>
      <RunFilters search={search} onChange={setSearch} />
      {search.id === undefined && <BulkActions ids={params} search={search} />}
      <RunTable
        key={JSON.stringify([appName, search])}
        projectId={projectId}
        search={{ ...search, app: appName }}
        isOfApp
        empty={
          <NoRuns search={search} onClear={() => setSearch(() => ({}))}>
            Try it in the{" "}
            <Link
              to="/projects/$projectId/apps/$appName/playground"
              params={params}
              className="text-accent underline"
            >
              playground
            </Link>
            , or from a terminal: <code className="font-mono">millrace call {appName}</code>
          </NoRuns>
        }
      />
    </>
  );
}
