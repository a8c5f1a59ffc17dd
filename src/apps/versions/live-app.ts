import type { App, Version } from "../../model/app.ts";
import type { AppConfig } from "../../model/app-config.ts";
import type { Call } from "../../replicas/call.ts";
import type { Pool } from "../../replicas/pool.ts";
import type { PoolLogLine } from "../../replicas/pool-events.ts";
import type { Slots } from "../../replicas/slots/slots.ts";

/** A version that takes calls of its app, and its replicas. */
export type LiveApp = {
  readonly app: App;
  readonly version: Version;
  readonly pool: Pool;
  /** Where its runs go. */
  readonly target: VersionTarget;
};

/** Where runs of a version go. */
export type VersionTarget = {
  readonly appNumber: number;
  readonly versionId: string;
  readonly slots: Slots<Call>;
  readonly config: AppConfig;
};

/** A line an app printed, with where it came from. */
export type AppLogLine = PoolLogLine & {
  readonly projectId: string;
  readonly appName: string;
  readonly appNumber: number;
};
