import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { LogFilter } from "../../../api/logs.ts";
import { LogView } from "./log-view.ts";
import type { LogState } from "./log-view.ts";

/** The log of an app while somebody looks at it. A page that nobody sees follows nothing. */
export function useLogView(
  projectId: string,
  appName: string,
  { search, stream, runId, replica }: LogFilter,
): { readonly view: LogView; readonly state: LogState } {
  const view = useMemo(() => {
    const filter = {
      ...(search && { search }),
      ...(stream && { stream }),
      ...(runId && { runId }),
      ...(replica && { replica }),
    };
    return new LogView({ projectId, appName }, filter);
  }, [projectId, appName, search, stream, runId, replica]);
  useEffect(() => {
    const look = (): void => {
      if (document.hidden) view.close();
      else if (!view.state().isPaused) view.open();
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      view.close();
    };
  }, [view]);
  return { view, state: useSyncExternalStore(view.subscribe, view.state) };
}
