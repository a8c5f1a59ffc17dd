import * as z from "zod/mini";
import { BUILD_STAGES, BUILD_STATUSES } from "../model/build.ts";
import { LOG_STREAMS } from "../model/log-line.ts";
import { TIMESTAMP } from "./common.ts";

const STATUS = z.enum(BUILD_STATUSES);

/** A build: a deploy on its way, or how it ended. */
export const BUILD = z.object({ id: z.uuid(), status: STATUS, createdAt: TIMESTAMP, updatedAt: TIMESTAMP });
export type BuildRecord = z.infer<typeof BUILD>;

/** An app's builds. */
export const BUILDS = z.array(
  z.extend(BUILD, {
    /** The line a person needs when it failed. */
    message: z.nullable(z.string()),
    /** The number of the version it made; null when there is none to put back. */
    version: z.nullable(z.int()),
    /** Calls go to its version. */
    isServing: z.boolean(),
  }),
);
export type ListedBuild = z.infer<typeof BUILDS>[number];

const LINE = z.object({ id: z.uuid(), createdAt: TIMESTAMP, log: z.string() });
/** A line of a build's log. */
export type BuildLineRecord = z.infer<typeof LINE>;

/** A build's log so far. */
export const BUILD_LOG = z.object({ logs: z.array(LINE), status: STATUS });

/** A line of a build's log as `/ws-build-logs` sends it. */
export const BUILD_FRAME = z.object({
  build_id: z.uuid(),
  log_id: z.uuid(),
  app_id: z.string(),
  container_id: z.null(),
  timestamp: z.string(),
  log: z.string(),
  stream: z.enum(LOG_STREAMS),
  region: z.null(),
  /** From 1, without a gap. */
  log_line_number: z.int(),
  stage: z.enum(BUILD_STAGES),
});
export type BuildFrame = z.infer<typeof BUILD_FRAME>;

/** A deploy that has begun, and where its bundle is sent. */
export const BEGUN_DEPLOY = z.object({
  buildId: z.uuid(),
  status: STATUS,
  uploadUrl: z.url(),
  keyName: z.string(),
  internalEndpoint: z.url(),
  dashboardUrl: z.url(),
});

/** The result of a dry run. */
export const DRY_RUN = z.object({
  app: z.string(),
  /** The project has no such app yet. */
  isNew: z.boolean(),
  plan: z.array(z.string()),
  warnings: z.array(z.string()),
  /** Why it would fail; empty if nothing is known that would make it. */
  problems: z.array(z.string()),
});

/** A bundle that has arrived. */
export const UPLOADED_BUNDLE = z.object({ buildId: z.uuid() });

/** A line of the answer to a deploy in one call: the build's log, and at last how it ended. */
export const DEPLOY_LINE = z.union([
  z.object({ log: z.string(), stream: z.string(), stage: z.string(), createdAt: z.string() }),
  z.object({ build: BUILD, endpoint: z.string(), message: z.nullable(z.string()) }),
]);
export type DeployLine = z.infer<typeof DEPLOY_LINE>;
