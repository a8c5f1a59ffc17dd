import type { Command } from "commander";
import { type UsageGroup, USAGE_GROUPS } from "../../model/usage.ts";
import { PROJECT_USAGE, type ProjectUsage, type UsageRecord } from "../../shapes/usage.ts";
import { usage as wrongUse } from "../failure.ts";
import type { Definitions } from "../options.ts";
import { bytes, type Columns, printableName, tableOf } from "../output.ts";
import { explain } from "./explain.ts";
import { textOf } from "./http.ts";
import { asks } from "./task.ts";
import type { RemoteFlags, Switches, Task, Texts } from "./task.ts";

type UsageFlags = RemoteFlags &
  Texts<"from" | "to" | "app" | "token" | "tag"> &
  Switches<"csv"> & { readonly by: readonly UsageGroup[] };

export const COMMANDS: Definitions = {
  usage(command: Command) {
    const examples = [
      "millrace usage --by app",
      "millrace usage --from 2026-11-01 --to 2026-11-30 --by day,token --csv",
    ];
    asks(command, showUsage, ...examples)
      .option("--from <date>", "the first day, in UTC (default: 30 days ago)", day("--from"))
      .option("--to <date>", "the last day (default: today)", day("--to"))
      .option("--by <groups>", `add up by ${USAGE_GROUPS.join(", ")}, or several of them`, groups, ["day"])
      .option("--app <name>", "only that app")
      .option("--token <id>", "only calls of that service account or person; none: calls without a token")
      .option("--tag <tag>", "only runs with that tag")
      .option("--csv", "print CSV");
  },
};

async function showUsage({ api, flags, out }: Task<UsageFlags>): Promise<void> {
  const { from, to, by, app, token, tag } = flags;
  if (flags.csv && flags.json) throw wrongUse("give --csv or --json, not both");
  const appId = app === undefined ? undefined : `${await api.project()}-${await api.appName(app)}`;
  const query = { from, to, groupBy: by.join(","), app_id: appId, token, tag };
  const path = await api.path("usage");
  const about = { app };
  if (!flags.csv) {
    const found = await api.get(PROJECT_USAGE, path, { query, about });
    return out.show(found, () => describe(found));
  }
  const answer = await api.open("GET", path, { query, headers: { accept: "text/csv" } });
  const text = await textOf(answer);
  if (answer.status >= 400) throw explain(answer.status, text, api.site, about);
  process.stdout.write(text);
}

function describe({ items, groupBy, from, to }: ProjectUsage): string {
  if (items.length === 0) return `Nothing was called from ${from} to ${to}.\n`;
  return tableOf(items, columnsOf(groupBy, items));
}

type Column = {
  readonly heading: string;
  readonly cell: (used: UsageRecord) => string;
  /** What usage has to be added up by; absent: anything. */
  readonly by?: UsageGroup;
  /** Left out if it is 0 in every row; absent: always shown. */
  readonly amount?: (used: UsageRecord) => number;
};

const COLUMNS: readonly Column[] = [
  { heading: "DAY", by: "day", cell: ({ day = "" }) => day },
  { heading: "APP", by: "app", cell: ({ appId = "" }) => appId },
  { heading: "TOKEN", by: "token", cell: ({ accountId }) => accountId ?? "none" },
  { heading: "TAG", by: "tag", cell: ({ tag = "" }) => printableName(tag) },
  { heading: "CALLS", cell: ({ calls }) => String(calls) },
  { heading: "FAILED", cell: ({ failed }) => String(failed) },
  { heading: "RAN", cell: ({ runSeconds }) => spanText(runSeconds) },
  {
    heading: "GPU",
    cell: ({ gpuSeconds }) => spanText(gpuSeconds),
    amount: ({ gpuSeconds }) => gpuSeconds,
  },
  { heading: "IN", cell: ({ requestBytes }) => bytes(requestBytes) },
  { heading: "OUT", cell: ({ responseBytes }) => bytes(responseBytes) },
  {
    heading: "TOKENS IN",
    cell: ({ inputTokens }) => String(inputTokens),
    amount: ({ inputTokens }) => inputTokens,
  },
  {
    heading: "TOKENS OUT",
    cell: ({ outputTokens }) => String(outputTokens),
    amount: ({ outputTokens }) => outputTokens,
  },
  {
    heading: "REPLICAS",
    cell: ({ replicas }) => spanText(replicas?.seconds ?? 0),
    amount: ({ replicas }) => replicas?.seconds ?? 0,
  },
  {
    heading: "CPU",
    cell: ({ replicas }) => spanText(replicas?.cpuSeconds ?? 0),
    amount: ({ replicas }) => replicas?.cpuSeconds ?? 0,
  },
  {
    heading: "GB·H",
    cell: ({ replicas }) => ((replicas?.gbSeconds ?? 0) / 3600).toFixed(2),
    amount: ({ replicas }) => replicas?.gbSeconds ?? 0,
  },
  {
    heading: "GPU HELD",
    cell: ({ replicas }) => spanText(replicas?.gpuSeconds ?? 0),
    amount: ({ replicas }) => replicas?.gpuSeconds ?? 0,
  },
];

function columnsOf(groupBy: readonly UsageGroup[], items: readonly UsageRecord[]): Columns<UsageRecord> {
  const shown = COLUMNS.filter(({ by, amount }) => {
    if (by !== undefined) return groupBy.includes(by);
    return amount === undefined || items.some((used) => amount(used) > 0);
  });
  return Object.fromEntries(shown.map(({ heading, cell }) => [heading, cell]));
}

function spanText(seconds: number): string {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  return seconds < 3600 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function day(option: string): (text: string) => string {
  return (text) => {
    if (/^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text))) return text;
    throw wrongUse(`${option} takes a date such as 2026-11-01, not ${JSON.stringify(text)}`);
  };
}

function groups(text: string): UsageGroup[] {
  return text.split(",").map((word) => {
    const group = USAGE_GROUPS.find((name) => name === word.trim());
    if (group) return group;
    throw wrongUse(`--by takes ${USAGE_GROUPS.join(", ")} with commas between, not ${JSON.stringify(text)}`);
  });
}
