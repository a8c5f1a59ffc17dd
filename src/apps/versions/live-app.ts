import type { App, Version } from "../../model/app.ts";
import type { Pool, PoolLogLine, RunTarget } from "../../replicas/pool.ts";

/** A version that takes calls of its app, and its replicas. */
export type LiveApp = {
  readonly app: App;
  readonly version: Version;
  readonly pool: Pool;
  /** Where its runs go. */
  readonly target: RunTarget;
};

/** A line an app printed, with where it came from. */
export type AppLogLine = PoolLogLine & {
  readonly projectId: string;
  readonly appName: string;
  readonly appNumber: number;
};
