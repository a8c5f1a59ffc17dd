import { Link } from "@tanstack/react-router";
import { nameOf } from "../../api/apps.ts";
import type { Failure } from "../../api/figures.ts";
import { Card } from "../../parts/card.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Time } from "../../parts/time.tsx";

const COLUMNS = [
  { title: "Error" },
  { title: "App" },
  { title: "Function", isMinor: true },
  { title: "When", align: "right" },
] as const;

/** The newest failures, each with the way to its run. */
export function LastFailures({
  projectId,
  failures,
  isOfApp,
}: {
  readonly projectId: string;
  /** All of one app, which need not be said. */
  readonly isOfApp: boolean;
  readonly failures: readonly Failure[] | undefined;
}) {
  const columns = isOfApp ? COLUMNS.filter(({ title }) => title !== "App") : COLUMNS;
  return (
    <Card title="Last failures" isFlush>
      {failures?.length === 0 ? (
        <p className="px-4 py-6 text-ink-soft">No run has failed in this time.</p>
      ) : (
        <Table columns={columns} label="Last failures">
          {failures?.map((failure) => (
            <FailureRow key={failure.id} projectId={projectId} failure={failure} isOfApp={isOfApp} />
          )) ?? <SkeletonRows rows={4} columns={columns.length} />}
        </Table>
      )}
    </Card>
  );
}

function FailureRow({
  projectId,
  failure,
  isOfApp,
}: {
  readonly projectId: string;
  readonly failure: Failure;
  readonly isOfApp: boolean;
}) {
  const { id, appId, functionName, createdAt, error } = failure;
  const appName = nameOf(projectId, appId);
  const message = error?.message || error?.code || "failure";
  return (
    <Row>
      <Cell className="w-full max-w-0 min-w-32 truncate">
        <Link
          to="/projects/$projectId/apps/$appName/runs/$runId"
          params={{ projectId, appName, runId: id }}
          title={message}
          className="text-bad underline-offset-2 hover:underline"
        >
          {message}
        </Link>
      </Cell>
      {!isOfApp && (
        <Cell className="max-w-24 truncate sm:max-w-48">
          <Link
            to="/projects/$projectId/apps/$appName"
            params={{ projectId, appName }}
            className="text-ink-soft underline-offset-2 hover:underline"
          >
            {appName}
          </Link>
        </Cell>
      )}
      <Cell isMinor className="max-w-48 truncate font-mono text-[0.9rem] text-ink-soft">
        {functionName}
      </Cell>
      <Cell align="right">
        <Time at={createdAt} />
      </Cell>
    </Row>
  );
}
