import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { installation } from "../api/installation.ts";
import { readRunSearch } from "../api/run-search.ts";
import { CodeBlock } from "../parts/copy.tsx";
import { Page } from "../parts/page.tsx";
import { RunFilters } from "./runs/filters.tsx";
import type { SearchChange } from "./runs/filters.tsx";
import { NoRuns } from "./runs/no-runs.tsx";
import { RunTable } from "./runs/run-table.tsx";

/** The runs of all apps of the project. */
export function Runs() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const search = useSearch({ from: "/gate/projects/$projectId/runs" });
  const navigate = useNavigate();
  const setSearch = (change: SearchChange): void => {
    const to = "/projects/$projectId/runs" as const;
    void navigate({
      to,
      params: { projectId },
      search: (last) => change(readRunSearch(last)),
      replace: true,
    });
  };
  return (
    <Page
      title="Runs"
      subtitle="Every call of every app, newest first. Sync runs appear once they have ended."
    >
      <RunFilters search={search} onChange={setSearch} projectId={projectId} />
      <RunTable
        key={JSON.stringify(search)}
        projectId={projectId}
        search={search}
        isOfApp={false}
        empty={
          <NoRuns search={search} onClear={() => setSearch(() => ({}))}>
            <p className="mb-3">Call an app, and its run appears here a moment later.</p>
            <CodeBlock
              label="A call"
              text={`curl ${installation.apiUrl}/v4/${projectId}/APP/run \\\n  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d '{}'`}
            />
          </NoRuns>
        }
      />
    </Page>
  );
}
