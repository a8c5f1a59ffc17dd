import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { followBuild } from "../../../api/build-log.ts";
import type { BuildIds, BuildLine } from "../../../api/build-log.ts";
import { buildsQuery } from "../../../api/builds.ts";

/** A build's log as it comes. Another build's needs a component of its own. */
export function useBuildLog({ projectId, appName, buildId }: BuildIds): {
  readonly lines: readonly BuildLine[];
  readonly hasEnded: boolean;
  readonly error: unknown;
} {
  const queries = useQueryClient();
  const [lines, setLines] = useState<readonly BuildLine[]>([]);
  const [hasEnded, setEnded] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const gone = new AbortController();
    const follow = async (): Promise<void> => {
      const add = (more: readonly BuildLine[]): void => setLines((before) => [...before, ...more]);
      await followBuild({ projectId, appName, buildId }, add, gone.signal);
      if (gone.signal.aborted) return;
      setEnded(true);
      // With the log its status has changed too.
      await queries.invalidateQueries({ queryKey: buildsQuery(projectId, appName).queryKey });
    };
    follow().catch((reason: unknown) => !gone.signal.aborted && setError(reason));
    return () => gone.abort();
  }, [projectId, appName, buildId, queries]);
  return { lines, hasEnded, error };
}
