import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { functionsQuery } from "../../api/app-document.ts";
import { payloadQuery } from "../../api/payload.ts";
import type { PlaygroundSearch } from "../../api/playground-search.ts";
import { requestOf } from "../../api/request-of-run.ts";
import { runQuery } from "../../api/runs.ts";
import type { Run } from "../../api/runs.ts";
import { serverQuery } from "../../api/server-runtime.ts";
import { Card } from "../../parts/card.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { ServerWorkbench } from "./playground/server/server-workbench.tsx";
import { Workbench } from "./playground/workbench.tsx";

/** An app to be called from here: its functions, or the server that it is. */
export function AppPlayground() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const search = useSearch({ from: "/gate/projects/$projectId/apps/$appName/playground" });
  const { from } = search;
  const ids = { projectId, appName, runId: from ?? "" };
  const { data: server, error, refetch } = useQuery(serverQuery(projectId, appName));
  // A run to begin with.
  const run = useQuery({ ...runQuery(ids), enabled: from !== undefined, refetchInterval: false });
  const input = useQuery(payloadQuery(ids, "input", from !== undefined));
  if (error && server === undefined) return <Problem error={error} onRetry={() => void refetch()} />;
  const isWaiting = from !== undefined && (run.isPending || input.isPending);
  if (server === undefined || isWaiting) return <Loading />;
  const kept = input.data && !input.data.isCut ? input.data : null;
  return (
    <>
      {from !== undefined && kept === null && !run.data?.websocket && (
        <p role="status" className="rounded-lg bg-warn-soft px-4 py-2.5 text-warn">
          {input.data?.isCut
            ? "That run's input is too long to be filled in here. Download it from its page."
            : "That run's input is no longer stored."}
        </p>
      )}
      {server ? (
        <ServerWorkbench
          key={from ?? ""}
          projectId={projectId}
          appName={appName}
          search={search}
          given={requestOf(run.data, kept)}
        />
      ) : (
        <Functions
          projectId={projectId}
          appName={appName}
          search={search}
          run={run.data}
          input={kept?.text ?? null}
        />
      )}
    </>
  );
}

function Functions({
  projectId,
  appName,
  search,
  run,
  input,
}: {
  readonly projectId: string;
  readonly appName: string;
  readonly search: PlaygroundSearch;
  readonly run: Run | undefined;
  readonly input: string | null;
}) {
  const { data: functions, error, refetch } = useQuery(functionsQuery(projectId, appName));
  if (error && !functions) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!functions) return <Loading />;
  const wanted = search.function ?? run?.functionName ?? "run";
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
  return (
    <Workbench
      key={`${fn.name} ${search.from ?? ""}`}
      projectId={projectId}
      appName={appName}
      functions={functions}
      fn={fn}
      search={search}
      input={input}
    />
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
