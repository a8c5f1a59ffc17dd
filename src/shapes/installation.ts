import * as z from "zod/mini";
import { TIMESTAMP } from "./common.ts";

/** What the dashboard's page needs to know about the service. */
export const INSTALLATION = z.object({
  /** Where apps are called. */
  apiUrl: z.string(),
  /** The release. */
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
  /** Attacks that should have been stopped and were not; the first of them. */
  failures: z.array(NAME).check(z.maxLength(50)),
});
export type EscapeReport = z.infer<typeof ESCAPE_REPORT>;

/** Something that apps are held to, or would be if the host had the means. */
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
  /** How many it owns. */
  apps: COUNT,
  /** How many its replicas were executing a moment ago. */
  runs: COUNT,
  startedAt: TIMESTAMP,
  /** The version of its release. */
  release: z.string(),
  /** Always empty: there were labels once, and clients may read them. */
  labels: z.record(z.string(), z.string()),
  cpus: z.number(),
  memoryBytes: z.number(),
});
export type NodeRecord = z.infer<typeof NODE>;

/** All services of the installation. */
export const NODES = z.array(NODE);
