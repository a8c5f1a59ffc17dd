import * as z from "zod/mini";
import { TIMESTAMP } from "./common.ts";

/** What apps live behind, from nothing to the strongest. */
const LEVEL = z.enum(["none", "process", "landlock", "userns", "uid"]);
export type Level = z.infer<typeof LEVEL>;

const NAME = z.string().check(z.maxLength(200));
const COUNT = z.int().check(z.nonnegative());

/** What the last `millrace doctor --escape` found. */
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
  /** By what; or what the host lacks, and what to do. */
  detail: z.string(),
});
export type IsolationRule = z.infer<typeof RULE>;

/** What keeps apps from the rest of the machine, and how that stood a test. */
export const ISOLATION = z.object({
  level: LEVEL,
  rules: z.array(RULE),
  lastEscape: z.nullable(ESCAPE_REPORT),
});
export type Isolation = z.infer<typeof ISOLATION>;
