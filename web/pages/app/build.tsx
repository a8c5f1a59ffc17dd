import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { buildsQuery } from "../../api/builds.ts";
import { Card } from "../../parts/card.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { BuildChanges } from "./build/build-changes.tsx";
import { BuildFacts } from "./build/build-facts.tsx";
import { BuildLog } from "./build/build-log.tsx";

/** One build: how it goes or went, and its log as it comes. */
export function AppBuild() {
  const { projectId, appName, buildId } = useParams({
    from: "/gate/projects/$projectId/apps/$appName/builds/$buildId",
  });
  const { data: builds, error, refetch } = useQuery(buildsQuery(projectId, appName));
  const build = builds?.find(({ id }) => id === buildId);
  if (error && !builds) return <Problem error={error} onRetry={() => void refetch()} />;
  if (builds && !build) {
    return (
      <Empty title="There is no such build">
        An app keeps its last 100.{" "}
        <Link
          to="/projects/$projectId/apps/$appName/builds"
          params={{ projectId, appName }}
          className="text-accent underline"
        >
          See all builds
        </Link>
      </Empty>
    );
  }
  return (
    <div className="flex flex-col gap-4">
      {build ? (
        <BuildFacts projectId={projectId} appName={appName} build={build} />
      ) : (
        <Card title={<Skeleton className="h-4 w-32" />}>
          <Skeleton className="h-10 w-full max-w-xl" />
        </Card>
      )}
      {build && <BuildChanges projectId={projectId} appName={appName} build={build} />}
      <BuildLog key={buildId} projectId={projectId} appName={appName} buildId={buildId} />
    </div>
  );
}
