import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { askMemory, startChild, withOpenFiles } from "../processes.ts";

const ROOT = join(import.meta.dirname, "../..");
const APPS = join(ROOT, "bench/apps");

/** A Millrace service in a process of its own. */
export type MillraceRunning = {
  readonly pid: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Where a function of one of its apps is called. */
  readonly callUrl: (app: string, functionName?: string) => string;
  /** Where its project is managed. */
  readonly projectUrl: string;
  /** What its process holds after a collection, if it was started with `mayCollect`. */
  readonly memory: () => Promise<NodeJS.MemoryUsage>;
  readonly stop: () => Promise<void>;
};

export type MillraceOptions = {
  readonly maxConnections?: number;
  /** Null or absent: SQLite in the data directory. */
  readonly databaseUrl?: string | null;
  /** What apps live behind; absent: as in production. */
  readonly isolation?: string;
  /** Where the service writes its CPU profile when it ends. */
  readonly profileDir?: string | undefined;
  /** It can be asked for its memory. */
  readonly mayCollect?: boolean;
  /** A module that changes how it works, loaded before its own. */
  readonly preload?: string | undefined;
  /** The root of another checkout, whose service is started instead. */
  readonly checkout?: string | undefined;
};

/**
 * Starts the service on a data directory with auth, records and limits as in production, and deploys apps of
 * `bench/apps`, or of folders elsewhere; those that an earlier start deployed there are served too.
 */
export async function startMillrace(
  dataDir: string,
  apps: readonly string[],
  {
    maxConnections,
    databaseUrl,
    isolation,
    profileDir,
    mayCollect = false,
    preload,
    checkout = ROOT,
  }: MillraceOptions = {},
): Promise<MillraceRunning> {
  const args = [
    ...(mayCollect ? ["--expose-gc"] : []),
    ...(profileDir === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileDir}`]),
    ...(preload === undefined ? [] : [`--import=${pathToFileURL(preload).href}`]),
    join(checkout, "bench/subjects/millrace-child.ts"),
    ...(maxConnections === undefined ? [] : [`--max-connections=${maxConnections}`]),
    ...(typeof databaseUrl === "string" ? [`--database-url=${databaseUrl}`] : []),
    ...(isolation === undefined ? [] : [`--isolation=${isolation}`]),
    dataDir,
    ...apps.map((app) => resolve(APPS, app)),
  ];
  const needsFiles = maxConnections !== undefined;
  const child = startChild(
    ...(needsFiles ? withOpenFiles(process.execPath, args) : ([process.execPath, args] as const)),
  );
  const line = JSON.parse(await child.nextLine()) as { url: string; projectUrl: string; token: string };
  const { url, projectUrl, token } = line;
  return {
    pid: child.pid,
    headers: { Authorization: `Bearer ${token}` },
    callUrl: (app, functionName = "run") => `${url}/${app}/${functionName}`,
    projectUrl,
    memory: () => askMemory(child),
    stop: child.stop,
  };
}
