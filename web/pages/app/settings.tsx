import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { ApiError } from "../../api/answer.ts";
import { configurationQuery } from "../../api/apps.ts";
import { Card } from "../../parts/card.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { Time } from "../../parts/time.tsx";
import { ConfigTable } from "./settings/config-table.tsx";
import { ScalingForm } from "./settings/scaling-form.tsx";

/** An app's scaling, to be changed while it serves, and the rest of its configuration, to be read. */
export function AppSettings() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const { data, error, refetch } = useQuery(configurationQuery(projectId, appName));
  if (error instanceof ApiError && error.code === "build_not_found") {
    return (
      <Card>
        <Empty title="No version is serving yet">
          <p className="mb-3">The settings shown here are those of the current version.</p>
          <CodeBlock label="Deploy" text={`millrace deploy ${appName}`} />
        </Empty>
      </Card>
    );
  }
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!data) {
    return (
      <Card title="Scaling">
        <Skeleton className="h-60 w-full" />
      </Card>
    );
  }
  return (
    <div className="flex flex-col gap-4">
      <ScalingForm projectId={projectId} appName={appName} keys={data.keys} />
      <Card
        isFlush
        title="Configuration"
        actions={
          <span className="text-ink-soft">
            <Link
              to="/projects/$projectId/apps/$appName/builds/$buildId"
              params={{ projectId, appName, buildId: data.buildId }}
              className="text-accent underline"
            >
              Version {data.version}
            </Link>
            , deployed <Time at={data.deployedAt} />
          </span>
        }
      >
        <p className="border-b border-line px-4 py-2.5 text-ink-soft">
          From <code>millrace.toml</code> and the deploy. To change it, edit the file and deploy again.
        </p>
        <ConfigTable keys={data.keys} />
      </Card>
    </div>
  );
}
