import * as z from "zod/mini";
import { BUILD_STAGES, BUILD_STATUSES } from "../model/build.ts";
import { LOG_STREAMS } from "../model/log-line.ts";
import { CONFIG_VALUE } from "./apps.ts";
import { TIMESTAMP } from "./common.ts";

const STATUS = z.enum(BUILD_STATUSES);

/** A deploy in progress, or its outcome. */
export const BUILD = z.object({ id: z.uuid(), status: STATUS, createdAt: TIMESTAMP, updatedAt: TIMESTAMP });
export type BuildRecord = z.infer<typeof BUILD>;

export const BUILDS = z.array(
  z.extend(BUILD, {
    /** Why it failed. */
    message: z.nullable(z.string()),
    /** The number of its version; null if there is none to roll back to. */
    version: z.nullable(z.int()),
    isServing: z.boolean(),
    /** The id of the account or person that deployed it; null for a folder of the installation, or if unknown. */
    deployedBy: z.nullish(z.string()),
  }),
);
export type ListedBuild = z.infer<typeof BUILDS>[number];

/** What a version changes in the one before it. */
export const BUILD_CHANGES = z.object({
  /** The version before it; null for the first one, or if that is gone. */
  before: z.nullable(z.object({ buildId: z.uuid(), version: z.int() })),
  /** Whether its files are the same; null if that is not known. */
  sameFiles: z.nullable(z.boolean()),
  /** Keys of the configuration, and `functions`, as they are now. */
  changes: z.array(z.object({ key: z.string(), before: CONFIG_VALUE, after: CONFIG_VALUE })),
});
export type BuildChanges = z.infer<typeof BUILD_CHANGES>;

const LINE = z.object({ id: z.uuid(), createdAt: TIMESTAMP, log: z.string() });

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

/** A deploy that has begun, and the URL for its bundle. */
export const BEGUN_DEPLOY = z.object({
  buildId: z.uuid(),
  status: STATUS,
  uploadUrl: z.url(),
  keyName: z.string(),
  internalEndpoint: z.url(),
  dashboardUrl: z.url(),
});

export const DRY_RUN = z.object({
  app: z.string(),
  /** The project does not have the app yet. */
  isNew: z.boolean(),
  plan: z.array(z.string()),
  warnings: z.array(z.string()),
  /** Why it would fail, as far as is known. */
  problems: z.array(z.string()),
});

export const UPLOADED_BUNDLE = z.object({ buildId: z.uuid() });

/** A line of the answer to a deploy in one call: a line of the build's log or, at the end, its outcome. */
export const DEPLOY_LINE = z.union([
  z.object({ log: z.string(), stream: z.string(), stage: z.string(), createdAt: z.string() }),
  z.object({ build: BUILD, endpoint: z.string(), message: z.nullable(z.string()) }),
]);
export type DeployLine = z.infer<typeof DEPLOY_LINE>;
