import * as z from "zod/mini";
import { TIMESTAMP } from "./common.ts";

/** The data about the service that the dashboard's page contains. */
export const INSTALLATION = z.object({
  apiUrl: z.string(),
  version: z.string(),
  sendsMail: z.boolean(),
});
export type Installation = z.infer<typeof INSTALLATION>;

/** The levels of isolation, from none to the strongest. */
const LEVEL = z.enum(["none", "process", "landlock", "userns", "uid"]);
export type Level = z.infer<typeof LEVEL>;

const NAME = z.string().check(z.maxLength(200));
const COUNT = z.int().check(z.nonnegative());

/** The report of the last `millrace doctor --escape`. */
export const ESCAPE_REPORT = z.object({
  at: TIMESTAMP,
  version: z.string().check(z.maxLength(100)),
  claimed: LEVEL,
  real: LEVEL,
  tried: COUNT,
  stopped: COUNT,
  /** The first attacks that should have been stopped and were not. */
  failures: z.array(NAME).check(z.maxLength(50)),
});
export type EscapeReport = z.infer<typeof ESCAPE_REPORT>;

/** A restriction of apps. */
const RULE = z.object({
  name: z.string(),
  isEnforced: z.boolean(),
  /** How it is enforced, or what the host lacks and what to do. */
  detail: z.string(),
});
export type IsolationRule = z.infer<typeof RULE>;

/** How apps are isolated, and the last test of it. */
export const ISOLATION = z.object({
  level: LEVEL,
  rules: z.array(RULE),
  lastEscape: z.nullable(ESCAPE_REPORT),
});
export type Isolation = z.infer<typeof ISOLATION>;

/** Whether a node takes apps, or hands its apps over. */
export const NODE_STATE = z.enum(["live", "leaving"]);

/** One service of the installation. */
export const NODE = z.object({
  id: z.string(),
  name: z.string(),
  /** The URL for the other nodes; null for a service that is alone. */
  url: z.nullable(z.string()),
  state: NODE_STATE,
  /** Whether it sent this answer. */
  isSelf: z.boolean(),
  apps: COUNT,
  /** How many its replicas execute. */
  runs: COUNT,
  startedAt: TIMESTAMP,
  release: z.string(),
  /** Always empty; clients may read them. */
  labels: z.record(z.string(), z.string()),
  cpus: z.number(),
  memoryBytes: z.number(),
});
export type NodeRecord = z.infer<typeof NODE>;
export const NODES = z.array(NODE);
