import type { Client, Pool } from "pg";
import { RUN_STATES } from "../../../src/model/run.ts";
import type { Terms } from "../../../src/model/terms.ts";
import type { QueueEvent } from "./queue-rules.ts";

/**
 * Every step of an async run through the queue, written down by the database in the transaction that makes it, with what
 * the run asked for. `asked_at` is when the statement came that made it: what had become true by then, it could see.
 */
const SCHEMA = `
create table history.queue (
  number bigserial primary key, xid xid8 not null default pg_current_xact_id(),
  asked_at timestamptz not null default statement_timestamp(),
  app bigint, run text, before int, state int, attempt int, place text, due_at bigint, terms text, line text, key text
);
create function history.queue() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and old.state = new.state and old.due_at is not distinct from new.due_at then return null; end if;
  insert into history.queue (app, run, before, state, attempt, place, due_at, terms, line, key) values (
    new.app_number, encode(new.id, 'hex'), case when tg_op = 'UPDATE' then old.state end, new.state, new.attempt,
    encode(coalesce(new.place, new.id), 'hex'), new.due_at, new.terms,
    coalesce(to_jsonb(new)->>'fairness_key', new.account_id, ''), to_jsonb(new)->>'concurrency_key'
  );
  return null;
end $$;
create trigger queue after insert or update on public.runs
  for each row when (new.is_async = 1) execute function history.queue();
`;

const EVENTS = `
select xid::text as transaction, extract(epoch from asked_at) * 1000 as "askedAt",
  extract(epoch from pg_xact_commit_timestamp(xid::xid)) * 1000 as "committedAt",
  app, run, before, state, attempt, place, due_at as "dueAt", terms, line, key
from history.queue order by pg_xact_commit_timestamp(xid::xid), number`;

type Row = Readonly<
  Record<"transaction" | "askedAt" | "committedAt" | "app" | "run" | "place" | "line", string> & {
    before: number | null;
    state: number;
    attempt: number;
    dueAt: string | null;
    terms: string | null;
    key: string | null;
  }
>;

/** Writes down what async runs do from now on. */
export async function watchQueue(database: Client | Pool): Promise<void> {
  await database.query(SCHEMA);
}

/** All of it, in the order in which it became true. */
export async function readQueue(database: Client | Pool): Promise<QueueEvent[]> {
  const { rows } = await database.query<Row>(EVENTS);
  return rows.map(
    ({ transaction, askedAt, committedAt, app, run, before, state, attempt, place, ...row }) => {
      const terms = row.terms === null ? null : (JSON.parse(row.terms) as Terms);
      return {
        transaction,
        askedAt: Number(askedAt),
        committedAt: Number(committedAt),
        app: Number(app),
        run,
        before: before === null ? null : RUN_STATES[before]!,
        state: RUN_STATES[state]!,
        attempt,
        place,
        dueAt: row.dueAt === null ? null : Number(row.dueAt),
        line: row.line,
        key: row.key,
        maxAttempts: terms?.maxAttempts ?? null,
      };
    },
  );
}
