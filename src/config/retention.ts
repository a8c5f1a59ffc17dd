import { LIMITS_KEYS } from "./keys/limits.ts";
import type { SettingKey } from "./readers.ts";
import { envOf, SETTING_KEYS } from "./setting-keys.ts";
import type { LimitsConfig } from "../model/app-config.ts";

/** Something that grows with use, and what bounds it; `doctor` tells of it in the check of that name. */
export type RetentionRow = {
  readonly what: string;
  /** How much is kept: a setting, or a number that is fixed. */
  readonly size: readonly Bound[];
  /** How long. */
  readonly age: readonly Bound[];
  readonly check: "storage" | "audit log" | "apps";
};

type Bound =
  | { readonly setting: keyof typeof SETTING_KEYS }
  | { readonly limit: keyof LimitsConfig }
  | { readonly fixed: string };

/** Everything that grows. The table in docs/operations.md is compared with it. */
export const RETENTION: readonly RetentionRow[] = [
  {
    what: "run records",
    size: [{ setting: "maxRuns" }],
    age: [{ setting: "recordRetentionMs" }],
    check: "storage",
  },
  {
    what: "payloads: inputs and results",
    size: [{ setting: "maxStorageBytes" }],
    age: [{ limit: "resultRetentionSeconds" }],
    check: "storage",
  },
  {
    what: "transcripts",
    size: [{ setting: "maxStorageBytes" }, { limit: "maxTranscriptBytes" }],
    age: [{ limit: "resultRetentionSeconds" }],
    check: "storage",
  },
  {
    what: "lines that apps print",
    size: [{ setting: "maxLogBytes" }, { limit: "maxLogBytes" }],
    age: [{ setting: "recordRetentionMs" }],
    check: "storage",
  },
  {
    what: "builds and their logs",
    size: [{ fixed: "the newest 100 of an app, and those of its versions" }],
    age: [{ fixed: "as long as the app" }],
    check: "storage",
  },
  {
    what: "versions and their bundles",
    size: [{ fixed: "the newest 10 of an app, and those that runs still need" }],
    age: [{ fixed: "as long as the app" }],
    check: "apps",
  },
  {
    what: "environments",
    size: [{ fixed: "those of kept versions" }],
    age: [{ fixed: "24 h after their last use" }],
    check: "storage",
  },
  {
    what: "deliveries of webhooks",
    size: [{ setting: "maxRuns" }],
    age: [{ setting: "recordRetentionMs" }],
    check: "storage",
  },
  {
    what: "audit log",
    size: [{ fixed: "no size limit, so that many entries cannot push out older ones" }],
    age: [{ setting: "auditRetentionMs" }],
    check: "audit log",
  },
];

/** A row as the document has it. */
export function retentionLine({ what, size, age, check }: RetentionRow): string {
  return `| ${what} | ${size.map(describe).join(", ")} | ${age.map(describe).join(", ")} | \`${check}\` |`;
}

function describe(bound: Bound): string {
  if ("fixed" in bound) return bound.fixed;
  if ("setting" in bound) {
    const { name, default: usual }: SettingKey<unknown> = SETTING_KEYS[bound.setting];
    return `\`${envOf(name)}\` (${usual})`;
  }
  const { path, default: usual } = LIMITS_KEYS[bound.limit];
  return `\`${path}\` (${String(usual)})`;
}
