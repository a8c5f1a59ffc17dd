import { useQuery } from "@tanstack/react-query";
import { Navigate } from "@tanstack/react-router";
import { meQuery } from "../api/me.ts";
import { Empty } from "../parts/empty.tsx";
import { Problem } from "../parts/problem.tsx";

/** The way to the project that was looked at last, or the first there is. */
export function Home() {
  const { data: me, error, refetch } = useQuery(meQuery);
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  if (!me) return null;
  const last = localStorage.getItem("project");
  const project = me.projects.find(({ id }) => id === last) ?? me.projects[0];
  if (project) return <Navigate to="/projects/$projectId" params={{ projectId: project.id }} replace />;
  return (
    <main>
      <Empty title="You are not in any project yet">
        Ask an owner of one for an invitation, and open its link here.
      </Empty>
    </main>
  );
}
