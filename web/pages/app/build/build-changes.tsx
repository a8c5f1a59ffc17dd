import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { buildChangesQuery } from "../../../api/builds.ts";
import type { Build } from "../../../api/builds.ts";
import type { ConfigValue } from "../../../api/apps.ts";
import { Card } from "../../../parts/card.tsx";
import { Problem } from "../../../parts/problem.tsx";
import { Skeleton } from "../../../parts/skeleton.tsx";

const FILES = { true: "Its files are the same.", false: "Its files differ.", null: "" } as const;

/** What a version changes in the one before it; nothing of a build that has none. */
export function BuildChanges({
  projectId,
  appName,
  build,
}: {
  readonly projectId: string;
  readonly appName: string;
  readonly build: Build;
}) {
  const enabled = build.version !== null;
  const { data, error, refetch } = useQuery({ ...buildChangesQuery(projectId, appName, build.id), enabled });
  if (!enabled) return null;
  return (
    <Card title="Changes">
      {error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : !data ? (
        <Skeleton className="h-10 w-full max-w-xl" />
      ) : data.before === null ? (
        <p className="text-ink-soft">There is no earlier version to compare it with.</p>
      ) : (
        <>
          <p className="text-ink-soft">
            Compared with{" "}
            <Link
              to="/projects/$projectId/apps/$appName/builds/$buildId"
              params={{ projectId, appName, buildId: data.before.buildId }}
              className="text-accent underline-offset-2 hover:underline"
            >
              version {data.before.version}
            </Link>
            . {FILES[`${data.sameFiles}`]}{" "}
            {data.changes.length === 0 && "Its configuration and its functions are the same."}
          </p>
          <ul aria-label="Changed keys" className="mt-2 font-mono text-[0.88rem] break-words">
            {data.changes.map(({ key, before, after }) => (
              <li key={key}>
                {before !== null && (
                  <p className="text-bad">
                    − {key}: {textOf(before)}
                  </p>
                )}
                {after !== null && (
                  <p className="text-good">
                    + {key}: {textOf(after)}
                  </p>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  );
}

function textOf(value: ConfigValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
