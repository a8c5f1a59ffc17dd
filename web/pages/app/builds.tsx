import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { buildsQuery, isUnderWay, shortId } from "../../api/builds.ts";
import type { Build } from "../../api/builds.ts";
import { useNames } from "../../api/names.ts";
import { Badge, StateBadge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { Empty } from "../../parts/empty.tsx";
import { span } from "../../parts/format.ts";
import { Problem } from "../../parts/problem.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { RollBack } from "./builds/roll-back.tsx";

const COLUMNS = [
  { title: "Build" },
  { title: "Status" },
  { title: "Version", align: "right" },
  { title: "Deployed by", isMinor: true },
  { title: "Started" },
  { title: "Took", align: "right", isMinor: true },
  { title: "Message", isMinor: true },
  { title: "Actions", align: "right" },
] as const;
/** An app keeps about a hundred. */
const MAX_SHOWN = 200;

/** How an app's deploys went, and the way back to an earlier version. */
export function AppBuilds() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const { data: builds, error, refetch } = useQuery(buildsQuery(projectId, appName));
  const names = useNames(projectId);
  const [chosen, setChosen] = useState<Build | null>(null);
  return (
    <Card isFlush title="Builds">
      {error && !builds ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : builds?.length === 0 ? (
        <Empty title="No builds yet">
          <p className="mb-3">
            Each deploy is a build. Each successful build is a version that you can go back to.
          </p>
          <CodeBlock label="Deploy" text={`millrace deploy ${appName}`} />
        </Empty>
      ) : (
        <Table columns={COLUMNS} label="Builds">
          {builds
            ?.slice(0, MAX_SHOWN)
            .map((build) => (
              <BuildRow
                key={build.id}
                build={build}
                projectId={projectId}
                appName={appName}
                author={build.deployedBy && (names.get(build.deployedBy) ?? build.deployedBy)}
                onServe={() => setChosen(build)}
              />
            )) ?? <SkeletonRows columns={COLUMNS.length} />}
        </Table>
      )}
      <RollBack projectId={projectId} appName={appName} target={chosen} onClose={() => setChosen(null)} />
    </Card>
  );
}

function BuildRow({
  build,
  projectId,
  appName,
  author,
  onServe,
}: {
  readonly build: Build;
  readonly projectId: string;
  readonly appName: string;
  readonly author: string | null | undefined;
  readonly onServe: () => void;
}) {
  const { id, status, createdAt, updatedAt, message, version, isServing } = build;
  return (
    <Row>
      <Cell>
        <Link
          to="/projects/$projectId/apps/$appName/builds/$buildId"
          params={{ projectId, appName, buildId: id }}
          title={id}
          className="font-mono text-[0.92rem] underline-offset-2 hover:text-accent hover:underline"
        >
          {shortId(id)}
        </Link>
      </Cell>
      <Cell>
        <StateBadge state={status} />
      </Cell>
      <Cell align="right">{version ?? <span className="text-ink-faint">–</span>}</Cell>
      <Cell isMinor className="max-w-48 truncate">
        <span title={build.deployedBy ?? undefined}>{author ?? "–"}</span>
      </Cell>
      <Cell>
        <Time at={createdAt} />
      </Cell>
      <Cell align="right" isMinor>
        {isUnderWay(build) ? "–" : span(Date.parse(updatedAt) - Date.parse(createdAt))}
      </Cell>
      <Cell isMinor className="w-full max-w-0 min-w-40 truncate text-ink-soft">
        <span title={message?.slice(0, 1_000)}>{message?.slice(0, 300)}</span>
      </Cell>
      <Cell align="right">
        {isServing ? (
          <Badge tone="good">live</Badge>
        ) : version === null ? null : (
          <Button size="small" aria-label={`Roll back to version ${version}`} onClick={onServe}>
            Roll back
          </Button>
        )}
      </Cell>
    </Row>
  );
}
