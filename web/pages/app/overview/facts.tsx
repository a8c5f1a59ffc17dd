import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { appQuery } from "../../../api/apps.ts";
import type { AppRecord } from "../../../api/apps.ts";
import { figuresQuery } from "../../../api/figures.ts";
import type { RangeName } from "../../../api/figures.ts";
import { serverQuery } from "../../../api/server-runtime.ts";
import { StateBadge } from "../../../parts/badge.tsx";
import { Card } from "../../../parts/card.tsx";
import { Skeleton } from "../../../parts/skeleton.tsx";
import { Time } from "../../../parts/time.tsx";

/** What one wants to know of an app besides how it is doing: what serves, on what, how it scales. */
export function Facts({
  projectId,
  appName,
  range,
}: {
  readonly projectId: string;
  readonly appName: string;
  /** Of the figures below, which know the version. */
  readonly range: RangeName;
}) {
  const { data: app } = useQuery(appQuery(projectId, appName));
  const { data: figures } = useQuery(figuresQuery(projectId, range, appName));
  const version = figures?.now.version;
  const { data: server } = useQuery({ ...serverQuery(projectId, appName), enabled: Boolean(version) });
  const build = { projectId, appName };
  return (
    <Card>
      <dl className="grid gap-x-8 gap-y-4 sm:grid-cols-2 xl:grid-cols-4">
        <Fact title="Serves">
          {figures === undefined ? (
            <Skeleton className="h-4 w-28" />
          ) : version ? (
            <Link
              to="/projects/$projectId/apps/$appName/builds/$buildId"
              params={{ ...build, buildId: version.buildId }}
              className="text-accent underline-offset-2 hover:underline"
            >
              Version {version.number}
            </Link>
          ) : (
            "No version yet"
          )}
        </Fact>
        <Fact title="Last build">{app ? <LastBuild app={app} /> : <Skeleton className="h-5 w-28" />}</Fact>
        <Fact title="Hardware">{app ? hardwareOf(app) : <Skeleton className="h-4 w-36" />}</Fact>
        <Fact title="Scaling">{app ? scalingOf(app) : <Skeleton className="h-4 w-36" />}</Fact>
        {app?.startFailure && (
          <Fact title="Could not start" isWide>
            <p className="min-w-0 wrap-anywhere">{app.startFailure}</p>
          </Fact>
        )}
        {app?.host && (
          <Fact title="Own host">
            <code className="min-w-0 font-mono text-[0.9rem] wrap-anywhere">{app.host}</code>
          </Fact>
        )}
        {server && (
          <>
            <Fact title="Server">
              <code className="min-w-0 font-mono text-[0.9rem] wrap-anywhere">{server.command}</code>
            </Fact>
            <Fact title="Port">{server.port}</Fact>
            <Fact title="Health check">{checkOf(server.healthCheck)}</Fact>
            <Fact title="Ready check">{checkOf(server.readyCheck)}</Fact>
          </>
        )}
      </dl>
    </Card>
  );
}

function checkOf(path: string | null): ReactNode {
  if (path === null) return "Accepts connections";
  return <code className="min-w-0 font-mono text-[0.9rem] wrap-anywhere">{path}</code>;
}

function Fact({
  title,
  isWide = false,
  children,
}: {
  readonly title: string;
  /** It takes a row of its own. */
  readonly isWide?: boolean;
  readonly children: ReactNode;
}) {
  return (
    <div className={isWide ? "min-w-0 sm:col-span-2 xl:col-span-4" : "min-w-0"}>
      <dt className="mb-0.5 text-[0.9rem] text-ink-soft">{title}</dt>
      <dd className="flex min-h-6 min-w-0 flex-wrap items-center gap-x-2">{children}</dd>
    </div>
  );
}

function LastBuild({ app }: { readonly app: AppRecord }) {
  if (app.lastBuildStatus === null) return "None yet";
  return (
    <>
      <StateBadge state={app.lastBuildStatus} />
      <span className="text-ink-faint">
        <Time at={app.updatedAt} />
      </span>
    </>
  );
}

function hardwareOf({ hardware, cpu, memory, gpuCount, gpuMemory }: AppRecord): string {
  const share = gpuMemory ? ` with ${gpuMemory} GB of GPU memory` : "";
  const gpus = Number(gpuCount) > 0 ? ` × ${gpuCount}${share}` : "";
  return `${hardware}${gpus}, ${cpu} ${cpu === "1" ? "core" : "cores"}, ${memory} GB`;
}

function scalingOf({ minReplicaCount, maxReplicaCount, cooldownPeriodSeconds }: AppRecord): string {
  return `${minReplicaCount} to ${maxReplicaCount} replicas, ${cooldownPeriodSeconds} s cooldown`;
}
