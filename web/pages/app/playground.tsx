import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { functionsQuery } from "../../api/app-document.ts";
import { payloadQuery } from "../../api/payload.ts";
import { runQuery } from "../../api/runs.ts";
import { Card } from "../../parts/card.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { Workbench } from "./playground/workbench.tsx";

/** An app's functions, to be called from here. */
export function AppPlayground() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const search = useSearch({ from: "/gate/projects/$projectId/apps/$appName/playground" });
  const { from } = search;
  const ids = { projectId, appName, runId: from ?? "" };
  const { data: functions, error, refetch } = useQuery(functionsQuery(projectId, appName));
  // A run to begin with.
  const run = useQuery({ ...runQuery(ids), enabled: from !== undefined, refetchInterval: false });
  const input = useQuery(payloadQuery(ids, "input", from !== undefined));
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  const isWaiting = from !== undefined && (run.isPending || input.isPending);
  if (!functions || isWaiting) return <Loading />;
  const wanted = search.function ?? run.data?.functionName ?? "run";
  const fn = functions.find(({ name }) => name === wanted) ?? functions[0];
  if (!fn) {
    return (
      <Card>
        <Empty title="There is nothing to call">
          Functions that <code className="font-mono">main.py</code> defines can be called, for example{" "}
          <code className="font-mono">def run(name): …</code>. Write one, and deploy again.
        </Empty>
      </Card>
    );
  }
  const kept = input.data && !input.data.isCut ? input.data.text : null;
  return (
    <>
      {from !== undefined && kept === null && (
        <p role="status" className="rounded-lg bg-warn-soft px-4 py-2.5 text-warn">
          {input.data?.isCut
            ? "That run's input is too long to be filled in here. Download it from its page."
            : "That run's input is no longer stored."}
        </p>
      )}
      <Workbench
        key={`${fn.name} ${from ?? ""}`}
        projectId={projectId}
        appName={appName}
        functions={functions}
        fn={fn}
        search={search}
        input={kept}
      />
    </>
  );
}

function Loading() {
  return (
    <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
      {["Call", "Answer"].map((title) => (
        <Card key={title} title={title}>
          <div className="flex flex-col gap-4">
            <Skeleton className="h-8.5 w-full" />
            <Skeleton className="h-8.5 w-full" />
            <Skeleton className="h-8.5 w-32" />
          </div>
        </Card>
      ))}
    </div>
  );
}
