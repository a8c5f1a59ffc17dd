import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { buildsQuery } from "../../api/builds.ts";
import type { Build } from "../../api/builds.ts";
import { figuresQuery } from "../../api/figures.ts";
import type { RangeName } from "../../api/figures.ts";
import { Problem } from "../../parts/problem.tsx";
import { Time } from "../../parts/time.tsx";
import type { Mark } from "../../parts/charts/frame.tsx";
import { LastFailures } from "./last-failures.tsx";
import { RunCharts } from "./run-charts.tsx";
import { Tiles } from "./tiles.tsx";

/** Tiles, charts and the last failures of a project or of one app, kept fresh. */
export function FiguresView({
  projectId,
  appName,
  range,
  empty,
}: {
  readonly projectId: string;
  readonly appName?: string;
  readonly range: RangeName;
  /** What stands where runs would be drawn. */
  readonly empty: ReactNode;
}) {
  const { data: figures, error, refetch } = useQuery(figuresQuery(projectId, range, appName));
  const { data: deploys } = useQuery({
    ...buildsQuery(projectId, appName ?? ""),
    enabled: appName !== undefined,
    select: deploysOf,
  });
  if (error && !figures) return <Problem error={error} onRetry={() => void refetch()} />;
  return (
    <>
      {error && <Problem error={error} onRetry={() => void refetch()} />}
      {figures?.isPartial && (
        <p role="status" className="rounded-lg bg-warn-soft px-4 py-2.5 text-warn">
          There were too many runs to count them all. These figures begin <Time at={figures.completeSince} />.
        </p>
      )}
      <Tiles figures={figures} />
      <RunCharts figures={figures} marks={deploys ?? []} empty={empty} />
      <LastFailures projectId={projectId} failures={figures?.lastFailures} isOfApp={appName !== undefined} />
    </>
  );
}

/** When builds began to serve, and which versions they are. */
function deploysOf(builds: readonly Build[]): Mark[] {
  return builds.flatMap(({ version, updatedAt }) =>
    version === null ? [] : { atMs: Date.parse(updatedAt), title: `Deployed version ${version}` },
  );
}
