import { useQuery } from "@tanstack/react-query";
import { buildsQuery } from "../../api/builds.ts";
import type { Build } from "../../api/builds.ts";
import type { Mark } from "../../parts/charts/frame.tsx";

const NONE: readonly Mark[] = [];

/** When versions of an app began to serve, for its charts; nothing without an app. */
export function useDeployMarks(projectId: string, appName: string | undefined): readonly Mark[] {
  const { data = NONE } = useQuery({
    ...buildsQuery(projectId, appName ?? ""),
    enabled: appName !== undefined,
    select: marksOf,
  });
  return data;
}

/** A build that succeeded was last changed when its version began to serve. */
function marksOf(builds: readonly Build[]): readonly Mark[] {
  return builds.flatMap(({ version, updatedAt }) =>
    version === null ? [] : { atMs: Date.parse(updatedAt), title: `Deployed version ${version}` },
  );
}
