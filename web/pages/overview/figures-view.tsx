import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { figuresQuery } from "../../api/figures.ts";
import type { RangeName } from "../../api/figures.ts";
import { Problem } from "../../parts/problem.tsx";
import { Time } from "../../parts/time.tsx";
import { useDeployMarks } from "../app/deploy-marks.ts";
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
  const marks = useDeployMarks(projectId, appName);
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
      <RunCharts figures={figures} marks={marks} empty={empty} />
      <LastFailures projectId={projectId} failures={figures?.lastFailures} isOfApp={appName !== undefined} />
    </>
  );
}
