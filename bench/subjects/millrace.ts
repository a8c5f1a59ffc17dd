import { join } from "node:path";
import { startChild } from "../processes.ts";

const APPS = join(import.meta.dirname, "../apps");

/** A Millrace service in a process of its own. */
export type MillraceRunning = {
  readonly headers: Readonly<Record<string, string>>;
  /** Where a function of one of its apps is called. */
  readonly callUrl: (app: string, functionName?: string) => string;
  readonly stop: () => Promise<void>;
};

/**
 * Starts the service on a data directory with auth, records and limits as in production, and deploys apps of
 * `bench/apps`; those that an earlier start deployed there are served too.
 */
export async function startMillrace(dataDir: string, apps: readonly string[]): Promise<MillraceRunning> {
  const script = join(import.meta.dirname, "millrace-child.ts");
  const child = startChild(process.execPath, [script, dataDir, ...apps.map((app) => join(APPS, app))]);
  const { url, token } = JSON.parse(await child.nextLine()) as { url: string; token: string };
  return {
    headers: { Authorization: `Bearer ${token}` },
    callUrl: (app, functionName = "run") => `${url}/${app}/${functionName}`,
    stop: child.stop,
  };
}
