import * as z from "zod/mini";
import { TIMESTAMP } from "./common.ts";

const COUNT = z.int().check(z.nonnegative());

/** What a node is about: it takes apps, or lets go of those it has. */
export const NODE_STATE = z.enum(["live", "leaving"]);

/** One service of the installation. */
export const NODE = z.object({
  id: z.string(),
  name: z.string(),
  /** Where the others reach it; null for a service alone, which nobody has to reach. */
  url: z.nullable(z.string()),
  state: NODE_STATE,
  /** Whether it is the one that answers. */
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
