import { z } from "zod";
import { AppError } from "../../model/errors.ts";
import { appId } from "../../model/names.ts";
import { USAGE_GROUPS } from "../../model/usage.ts";
import { PROJECT_USAGE, type ProjectUsage, type UsageRecord } from "../../shapes/usage.ts";
import type { CallUsage, ReplicaUsage, UsageQuery } from "../../store/usage/daily-usage.ts";
import { DAY_MS, dayOf } from "../../store/usage/roll-up.ts";
import { badField, nameIn } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Usage");
const MAX_DAYS = 400;
const DEFAULT_DAYS = 30;
const MAX_ROWS = 20_000;
const MAX_TAG_CHARS = 128;

/** A date, as days since 1970. */
const DAY = z.iso.date().transform((text) => dayOf(Date.parse(text)));
/** Names with commas between. */
const GROUPS = z
  .string()
  .max(100)
  .default("day")
  .transform((text) => (text === "" ? [] : text.split(",")))
  .pipe(z.array(z.enum(USAGE_GROUPS, "is not day, app, token or tag")))
  .refine((groups) => new Set(groups).size === groups.length, "names one of them twice");

const QUERY = z.object({
  from: DAY.optional(),
  to: DAY.optional(),
  groupBy: GROUPS,
  app_id: z.string().min(1).max(200).optional(),
  token: z.string().min(1).max(100).optional(),
  tag: z.string().min(1).max(MAX_TAG_CHARS).optional(),
  format: z.enum(["json", "csv"]).optional(),
});

/** What the calls and replicas of a project used, as JSON or CSV. */
export function usageOperations({ store, clock }: Pick<ManagementParts, "store" | "clock">): Operation[] {
  return [
    operation("GET", "/v2/projects/{project_id}/usage", {
      id: "getUsage",
      summary: "Get what calls and replicas used, by day, app, token or tag, as JSON or CSV",
      access: "run",
      query: QUERY,
      isHeavy: () => true,
      response: PROJECT_USAGE,
      alsoGives: "text/csv",
      errors: ["app_not_found"],
      handle: async ({ projectId, query, reply }) => {
        const name = query.app_id === undefined ? null : nameIn(projectId, query.app_id);
        if (query.app_id !== undefined && name === null) throw new AppError("app_not_found");
        const asked = { ...daysOf(query, clock.now()), ...callsOf(query) };
        const all = { projectId, apps: name === null ? [] : [name], limit: MAX_ROWS + 1, ...asked };
        const ofReplicas = hasReplicas(all) ? store.dailyUsage.ofReplicas(all) : [];
        const [calls, replicas] = await Promise.all([store.dailyUsage.ofCalls(all), ofReplicas]);
        const items = joined(projectId, all, calls, replicas);
        if (items.length > MAX_ROWS) throw tooMany();
        // It may have been deleted since it was called.
        const isUnknown =
          name !== null && items.length === 0 && !(await store.apps.find({ projectId, name }));
        if (isUnknown) throw new AppError("app_not_found");
        const usage: ProjectUsage = {
          from: dateOf(all.fromDay),
          to: dateOf(all.toDay - 1),
          groupBy: [...query.groupBy],
          items,
        };
        reply.header("vary", "Accept");
        if (!wantsCsv(query.format, reply.request.headers.accept)) return usage;
        const fileName = `usage-${projectId}-${usage.from}-${usage.to}.csv`;
        reply.header("content-disposition", `attachment; filename="${fileName}"`);
        return reply.type("text/csv; charset=utf-8").send(csvOf(items, columnsOf(usage)));
      },
    }),
  ];
}

type Query = z.output<typeof QUERY>;

function daysOf({ from, to }: Query, nowMs: number): Pick<UsageQuery, "fromDay" | "toDay"> {
  const toDay = (to ?? dayOf(nowMs)) + 1;
  const fromDay = from ?? toDay - DEFAULT_DAYS;
  if (fromDay >= toDay) throw badField("from", "is after to");
  if (toDay - fromDay > MAX_DAYS) throw badField("from", `is more than ${MAX_DAYS} days before to`);
  return { fromDay, toDay };
}

function callsOf({ groupBy: groups, token, tag }: Query): Pick<UsageQuery, "groups" | "accountId" | "tag"> {
  if ((groups.includes("token") || token !== undefined) && (groups.includes("tag") || tag !== undefined))
    throw badField("groupBy", "takes either tokens or tags: what a tag's runs used is not known by token");
  return { groups, accountId: token === "none" ? "" : (token ?? null), tag: tag ?? null };
}

/** Replicas serve all tokens and tags. */
function hasReplicas({ groups, accountId, tag }: UsageQuery): boolean {
  return accountId === null && tag === null && groups.every((group) => group === "day" || group === "app");
}

/** A file if the caller asks for one, by name or by `Accept`. */
function wantsCsv(format: Query["format"], accept = ""): boolean {
  return format === undefined ? /^\s*text\/csv\b/i.test(accept) : format === "csv";
}

function tooMany(): AppError {
  const message = `The answer would have more than ${MAX_ROWS} rows: ask for fewer days, one app, or fewer groups.`;
  return new AppError("bad_request", { message });
}

const NO_CALLS = {
  accountId: null,
  tag: null,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  retried: 0,
  runMs: 0,
  gpuMs: 0,
  requestBytes: 0,
  responseBytes: 0,
  inputTokens: 0,
  outputTokens: 0,
};

/** Calls with the replicas of the same day and app; replicas may have been there without a call. */
function joined(
  projectId: string,
  query: UsageQuery,
  calls: readonly CallUsage[],
  replicas: readonly ReplicaUsage[],
): UsageRecord[] {
  const isWith = hasReplicas(query);
  const keyOf = ({ day, app }: Pick<CallUsage, "day" | "app">): string => `${day} ${app}`;
  const left = new Map(replicas.map((used) => [keyOf(used), used]));
  const records = calls.map((used) => {
    const own = isWith ? left.get(keyOf(used)) : undefined;
    if (own) left.delete(keyOf(used));
    return usageRecord(projectId, query, used, isWith ? (own ?? null) : undefined);
  });
  const idle = Array.from(left.values(), (own) =>
    usageRecord(projectId, query, { ...NO_CALLS, day: own.day, app: own.app }, own),
  );
  if (idle.length === 0) return records;
  const order = ({ day = "", appId: id = "" }: UsageRecord): string[] =>
    query.groups.map((group) => (group === "day" ? day : id));
  return [...records, ...idle].toSorted((one, other) => compare(order(one), order(other)));
}

function compare(one: readonly string[], other: readonly string[]): number {
  const at = one.findIndex((text, i) => text !== other[i]);
  return at === -1 ? 0 : one[at]! < other[at]! ? -1 : 1;
}

/** `own`: what its replicas used, null if nothing is known; undefined where replicas are not asked for. */
function usageRecord(
  projectId: string,
  { groups }: UsageQuery,
  { day, app, accountId, tag, retried, runMs, gpuMs, ...used }: CallUsage,
  own: ReplicaUsage | null | undefined,
): UsageRecord {
  return {
    ...(groups.includes("day") && { day: dateOf(day ?? 0) }),
    ...(groups.includes("app") && { appId: appId(projectId, app ?? "") }),
    ...(groups.includes("token") && { accountId: accountId || null }),
    ...(groups.includes("tag") && { tag: tag ?? "" }),
    calls: used.succeeded + used.failed + used.cancelled,
    ...used,
    retries: retried,
    runSeconds: runMs / 1000,
    gpuSeconds: gpuMs / 1000,
    ...(own !== undefined && {
      replicas: {
        seconds: (own?.replicaMs ?? 0) / 1000,
        cpuSeconds: (own?.cpuMs ?? 0) / 1000,
        gpuSeconds: (own?.gpuMs ?? 0) / 1000,
        gbSeconds: (own?.gbMs ?? 0) / 1000,
      },
    }),
  };
}

function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, "2026-01-01".length);
}

type Columns = Readonly<Record<string, (used: UsageRecord) => string | number | null>>;

const GROUP_COLUMNS: Readonly<Record<(typeof USAGE_GROUPS)[number], Columns>> = {
  day: { day: ({ day = null }) => day },
  app: { app_id: ({ appId: id = null }) => id },
  token: { account_id: ({ accountId = null }) => accountId },
  tag: { tag: ({ tag = null }) => tag },
};

const SUM_COLUMNS: Columns = {
  calls: ({ calls }) => calls,
  succeeded: ({ succeeded }) => succeeded,
  failed: ({ failed }) => failed,
  cancelled: ({ cancelled }) => cancelled,
  retries: ({ retries }) => retries,
  run_seconds: ({ runSeconds }) => runSeconds,
  gpu_seconds: ({ gpuSeconds }) => gpuSeconds,
  request_bytes: ({ requestBytes }) => requestBytes,
  response_bytes: ({ responseBytes }) => responseBytes,
  input_tokens: ({ inputTokens }) => inputTokens,
  output_tokens: ({ outputTokens }) => outputTokens,
};

const REPLICA_COLUMNS: Columns = {
  replica_seconds: ({ replicas }) => replicas?.seconds ?? null,
  replica_cpu_seconds: ({ replicas }) => replicas?.cpuSeconds ?? null,
  replica_gpu_seconds: ({ replicas }) => replicas?.gpuSeconds ?? null,
  replica_gb_seconds: ({ replicas }) => replicas?.gbSeconds ?? null,
};

function columnsOf({ groupBy, items }: ProjectUsage): Columns {
  const groups = Object.fromEntries(groupBy.flatMap((group) => Object.entries(GROUP_COLUMNS[group])));
  const hasOwn = items.some(({ replicas }) => replicas !== undefined);
  return { ...groups, ...SUM_COLUMNS, ...(hasOwn && REPLICA_COLUMNS) };
}

type Cell = string | number | null;

/** A spreadsheet would execute a text that begins like this. */
const FORMULA = /^[=+\-@\t\r\n]/;
const SPECIAL = /[",\r\n]/;

/** A table as CSV by RFC 4180, with its heading. Texts that look like formulas get an apostrophe in front. */
function csvOf<Row>(rows: readonly Row[], columns: Readonly<Record<string, (row: Row) => Cell>>): string {
  const getters = Object.values(columns);
  const lines = rows.map((row) => getters.map((get) => cellText(get(row))).join(","));
  return [Object.keys(columns).join(","), ...lines].map((line) => `${line}\r\n`).join("");
}

function cellText(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  const text = FORMULA.test(cell) ? `'${cell}` : cell;
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
