import { LIMITS_KEYS } from "./keys/limits.ts";
import { envOf, SETTING_KEYS } from "./setting-keys.ts";

/** Something that grows with use, and what bounds it; `doctor` tells of it in the check of that name. */
export type RetentionRow = {
  readonly what: string;
  /** How much is kept, in words: a setting with its default, or a number that is fixed. */
  readonly size: string;
  /** How long. */
  readonly age: string;
  readonly check: "storage" | "audit log" | "apps";
};

const MAX_RUNS = setting("maxRuns");
const MAX_STORAGE = setting("maxStorageBytes");
const RECORDS = setting("recordRetentionMs");
const RESULTS = limit("resultRetentionSeconds");
const LOGS = `${setting("maxLogBytes")}, ${limit("maxLogBytes")}`;
const APP = "as long as the app";

/** Everything that grows. The table in docs/operations.md is compared with it. */
export const RETENTION: readonly RetentionRow[] = [
  { what: "run records", size: MAX_RUNS, age: RECORDS, check: "storage" },
  { what: "payloads: inputs and results", size: MAX_STORAGE, age: RESULTS, check: "storage" },
  {
    what: "transcripts",
    size: `${MAX_STORAGE}, ${limit("maxTranscriptBytes")}`,
    age: RESULTS,
    check: "storage",
  },
  { what: "lines that apps print", size: LOGS, age: RECORDS, check: "storage" },
  {
    what: "builds and their logs",
    size: "the newest 100 of an app, and those of its versions",
    age: APP,
    check: "storage",
  },
  {
    what: "versions and their bundles",
    size: "the newest 10 of an app, and those that runs still need",
    age: APP,
    check: "apps",
  },
  {
    what: "environments",
    size: "those of kept versions",
    age: "24 h after their last use",
    check: "storage",
  },
  { what: "deliveries of webhooks", size: MAX_RUNS, age: RECORDS, check: "storage" },
  {
    what: "audit log",
    size: "no size limit, so that many entries cannot push out older ones",
    age: setting("auditRetentionMs"),
    check: "audit log",
  },
];

/** A row as the document has it. */
export function retentionLine({ what, size, age, check }: RetentionRow): string {
  return `| ${what} | ${size} | ${age} | \`${check}\` |`;
}

function setting(member: keyof typeof SETTING_KEYS): string {
  const { name, default: usual } = SETTING_KEYS[member];
  return `\`${envOf(name)}\` (${usual})`;
}

function limit(member: keyof typeof LIMITS_KEYS): string {
  const { path, default: usual } = LIMITS_KEYS[member];
  return `\`${path}\` (${String(usual)})`;
}
