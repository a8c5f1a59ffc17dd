import type { RawBuilder } from "kysely";
import type { Run } from "../../model/run.ts";
import type { ColumnBatch, ColumnSources } from "../column-batch.ts";
import type { Row, Session } from "../operation.ts";
import { chunks } from "../queries.ts";
import { STATE_CODES } from "../runs/run-columns.ts";

// Each end of a run is added to the sums of its day by the write that stores it, once for the whole batch: what the sums
// say and what the records say cannot differ, whatever is killed.

export const DAY_MS = 24 * 3600 * 1000;

/** What some runs used that ended on one day. */
export type DailyUse = Row<"dailyUsage">;

const KEY = ["appNumber", "day", "tag", "accountId"] as const;

const SUMS = [
  "succeeded",
  "failed",
  "cancelled",
  "retried",
  "runUs",
  "gpuUs",
  "requestBytes",
  "responseBytes",
  "inputTokens",
  "outputTokens",
] as const;
type Sums = Record<(typeof SUMS)[number], number>;

/** The columns of a use, as a statement has them. */
export const USE_COLUMNS = [...KEY, ...SUMS] as const;

const NOTHING = Object.fromEntries(SUMS.map((name) => [name, 0])) as Sums;

/** Tags that an app's runs may have on one day; callers choose them. */
export const MAX_TAGS_PER_DAY = 1_000;
/** Stands for all other tags of that day. */
export const OTHER_TAGS = "(other)";

/** The columns of ended runs that are added up. `tags`: as a JSON list, for runs that may have some. */
export const USES = {
  numbers: {
    appNumber: ({ run }) => run.appNumber,
    state: ({ run }) => STATE_CODES[run.state],
    completedAt: ({ run }) => run.completedAt,
    updatedAt: ({ run }) => run.updatedAt,
    runMs: ({ run }) => run.runMs,
    gpuMs: ({ run }) => run.gpuMs,
    requestBytes: ({ run }) => run.requestBytes,
    responseBytes: ({ run }) => run.responseBytes,
    inputTokens: ({ run }) => run.inputTokens,
    outputTokens: ({ run }) => run.outputTokens,
  },
  texts: {
    accountId: ({ run }) => run.accountId,
    tags: ({ run: { terms } }) => (terms && terms.tags.length > 0 ? JSON.stringify(terms.tags) : null),
  },
  uuids: {},
} as const satisfies ColumnSources<{ readonly run: Run }>;

/** Where each number is in a row of a batch. */
type Places = Readonly<Record<keyof typeof USES.numbers, number>>;

/** The sums of some rows of a batch of ended runs, which has the columns of `USES`, perhaps without tags. */
export function rollUp({ numbers, texts }: ColumnBatch, rows: readonly number[]): DailyUse[] {
  const { names, values } = numbers;
  const width = names.length;
  const textWidth = texts.names.length;
  const places = Object.fromEntries(
    Object.keys(USES.numbers).map((name) => [name, names.indexOf(name)]),
  ) as Places;
  const accountId = texts.names.indexOf("accountId");
  const tags = texts.names.indexOf("tags");
  const uses = new Map<string, Mutable<DailyUse>>();
  const useOf = (appNumber: number, day: number, tag: string, account: string) => {
    const key = `${appNumber} ${day} ${account} ${tag}`;
    let use = uses.get(key);
    if (!use) {
      use = { appNumber, day, tag, accountId: account, ...NOTHING };
      uses.set(key, use);
    }
    return use;
  };
  // Runs of one account follow each other.
  let use: Mutable<DailyUse> | undefined;
  let lastCode = -1;
  for (const row of rows) {
    const at = row * width;
    const appNumber = values[at + places.appNumber]!;
    const completedAt = values[at + places.completedAt]!;
    const day = dayOf(Number.isNaN(completedAt) ? values[at + places.updatedAt]! : completedAt);
    const code = texts.codes[row * textWidth + accountId]!;
    if (lastCode !== code || use?.appNumber !== appNumber || use.day !== day)
      use = useOf(appNumber, day, "", texts.values[code - 1] ?? "");
    lastCode = code;
    addRun(use, values, at, places);
    const tagged = tags === -1 ? 0 : texts.codes[row * textWidth + tags]!;
    if (tagged === 0) continue;
    for (const tag of new Set(JSON.parse(texts.values[tagged - 1]!) as string[]))
      addRun(useOf(appNumber, day, tag, ""), values, at, places);
  }
  return [...uses.values()].toSorted(byKey);
}

type Mutable<Fields> = { -readonly [Name in keyof Fields]: Fields[Name] };

/** Together with the rest of `rollUp` 0.3 µs for each run. NaN is null. */
function addRun(use: Mutable<DailyUse>, values: Float64Array, at: number, places: Places): void {
  const state = values[at + places.state];
  if (state === STATE_CODES.success) use.succeeded += 1;
  else if (state === STATE_CODES.failure) use.failed += 1;
  else use.cancelled += 1;
  use.runUs += microseconds(values[at + places.runMs]! || 0);
  use.gpuUs += microseconds(values[at + places.gpuMs]! || 0);
  use.requestBytes += values[at + places.requestBytes]! || 0;
  use.responseBytes += values[at + places.responseBytes]! || 0;
  use.inputTokens += values[at + places.inputTokens]! || 0;
  use.outputTokens += values[at + places.outputTokens]! || 0;
}

/** In whole days since 1970, in UTC. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** As the database rounds it. */
function microseconds(ms: number): number {
  return Math.floor(ms * 1000 + 0.5);
}

/** What an attempt used after which the run was tried again. */
export function useOfAttempt(
  attempt: { readonly endedAt: number; readonly runMs: number | null; readonly gpuMs: number | null },
  { appNumber, accountId, tags }: { appNumber: number; accountId: string | null; tags: readonly string[] },
): DailyUse[] {
  const sums = {
    ...NOTHING,
    retried: 1,
    runUs: microseconds(attempt.runMs ?? 0),
    gpuUs: microseconds(attempt.gpuMs ?? 0),
  };
  const row = { appNumber, day: dayOf(attempt.endedAt), ...sums };
  return [
    { ...row, tag: "", accountId: accountId ?? "" },
    ...Array.from(new Set(tags), (tag) => ({ ...row, tag, accountId: "" })),
  ];
}

/** The sums of several writes of one transaction, each row once. */
export function joinUses(uses: readonly DailyUse[]): DailyUse[] {
  const joined = new Map<string, Mutable<DailyUse>>();
  for (const use of uses) {
    const key = `${use.appNumber} ${use.day} ${use.accountId} ${use.tag}`;
    const sum = joined.get(key);
    if (!sum) joined.set(key, { ...use });
    else for (const name of SUMS) sum[name] += use[name];
  }
  return [...joined.values()].toSorted(byKey);
}

/** All writes lock the rows in one order, also those of `rolledUpSql`: two that wait for each other would both fail. */
function byKey(one: DailyUse, other: DailyUse): number {
  return (
    one.appNumber - other.appNumber ||
    one.day - other.day ||
    compareTexts(one.tag, other.tag) ||
    compareTexts(one.accountId, other.accountId)
  );
}

function compareTexts(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

/** Adds to the sums, late in the transaction that stores what they are of: Postgres locks the rows from then on. */
export async function addUses(session: Session, uses: readonly DailyUse[]): Promise<void> {
  for (const rows of chunks(await withinTags(session, uses))) await upsertUses(session, rows).execute();
}

/** The statement that adds them. */
export function upsertUses({ db }: Pick<Session, "db">, uses: readonly DailyUse[]) {
  return db
    .insertInto("dailyUsage")
    .values([...uses])
    .onConflict((conflict) =>
      conflict
        .columns(KEY)
        .doUpdateSet((eb) =>
          Object.fromEntries(
            SUMS.map((name) => [name, eb(`dailyUsage.${name}`, "+", eb.ref(`excluded.${name}`))]),
          ),
        ),
    );
}

/** Adds up under `OTHER_TAGS` what would be one tag too many. */
async function withinTags({ db }: Session, uses: readonly DailyUse[]): Promise<DailyUse[]> {
  const tagged = uses.filter(({ tag }) => tag !== "");
  if (tagged.length === 0) return [...uses];
  const renamed: DailyUse[] = [];
  for (const ofDay of Map.groupBy(tagged, ({ appNumber, day }) => `${appNumber} ${day}`).values()) {
    const { appNumber, day } = ofDay[0]!;
    const rows = db
      .selectFrom("dailyUsage")
      .select("tag")
      .where("appNumber", "=", appNumber)
      .where("day", "=", day);
    const tags = ofDay.map(({ tag }) => tag);
    const known = new Set((await rows.where("tag", "in", tags).execute()).map(({ tag }) => tag));
    const isNew = ({ tag }: DailyUse): boolean => !known.has(tag);
    if (!ofDay.some(isNew)) {
      renamed.push(...ofDay);
      continue;
    }
    const count = (await rows.where("tag", ">", "").limit(MAX_TAGS_PER_DAY).execute()).length;
    let left = MAX_TAGS_PER_DAY - count;
    for (const use of ofDay) renamed.push(isNew(use) && left-- <= 0 ? { ...use, tag: OTHER_TAGS } : use);
  }
  return joinUses([...uses.filter(({ tag }) => tag === ""), ...renamed]);
}

/** The columns of inserted runs that `rolledUpSql` reads. */
export const ROLLED_COLUMNS = [...Object.keys(USES.numbers), "accountId"];

/** A statement of Postgres that adds the runs of a table expression to the sums, with the columns above. */
export function rolledUpSql(sql: Session["sql"], runs: RawBuilder<unknown>): RawBuilder<unknown> {
  const count = (state: keyof typeof STATE_CODES) =>
    sql`count(*) filter (where state = ${sql.lit(STATE_CODES[state])})`;
  const us = (column: string) => sql`coalesce(sum(floor(${sql.ref(column)} * 1000 + 0.5)), 0)`;
  const total = (column: string) => sql`coalesce(sum(${sql.ref(column)}), 0)`;
  const values = {
    succeeded: count("success"),
    failed: count("failure"),
    cancelled: count("cancelled"),
    retried: sql`0`,
    runUs: us("runMs"),
    gpuUs: us("gpuMs"),
    requestBytes: total("requestBytes"),
    responseBytes: total("responseBytes"),
    inputTokens: total("inputTokens"),
    outputTokens: total("outputTokens"),
  } satisfies Record<keyof Sums, RawBuilder<unknown>>;
  const changes = SUMS.map(
    (name) => sql`${sql.ref(name)} = total.${sql.ref(name)} + excluded.${sql.ref(name)}`,
  );
  return sql`
    insert into daily_usage as total (${sql.join(USE_COLUMNS.map((name) => sql.ref(name)))})
    select app_number, coalesce(completed_at, updated_at) / ${sql.lit(DAY_MS)}, '', coalesce(account_id, ''),
      ${sql.join(SUMS.map((name) => values[name]))}
    from ${runs} group by 1, 2, 4 order by 1, 2, coalesce(account_id, '') collate "C"
    on conflict (${sql.join(KEY.map((name) => sql.ref(name)))}) do update set ${sql.join(changes)}
    returning 1
  `;
}
