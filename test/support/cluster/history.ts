import type { Client, Pool } from "pg";
import { RUN_STATES, isFinal } from "../../../src/model/run.ts";
import type { Candidate } from "../../../src/nodes/rendezvous.ts";
import type { Event } from "./history-rules.ts";

/**
 * Every change of who has an app, every claim and every switch of a version, written down by the database itself, in the
 * transaction that makes it. A node writes under a role of its own name, so that nobody can say it was another. And the
 * others find the address of a node replaced by that of the test's way to it.
 */
const SCHEMA = `
create schema history;
create table history.ways (role text primary key, way text not null);
create table history.events (
  number bigserial primary key, xid xid8 not null default pg_current_xact_id(), role text not null default session_user,
  kind text not null, app bigint, owner text, fence bigint, run text, state int, before int, version text
);

create function history.lead() returns trigger language plpgsql as $$
begin
  new.url := coalesce((select way from history.ways where role = session_user and new.url is not null), new.url);
  return new;
end $$;
create trigger lead before insert or update of url on public.owners for each row execute function history.lead();

create function history.node() returns trigger language plpgsql as $$
begin
  insert into history.events (kind, owner) values ('node', new.id);
  return null;
end $$;
create trigger node after insert on public.owners for each row execute function history.node();

create function history.app() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' or old.fence <> new.fence or old.owner is distinct from new.owner then
    insert into history.events (kind, app, owner, fence) values ('owner', new.number, new.owner, new.fence);
  end if;
  if tg_op = 'UPDATE' and old.current_version_id is distinct from new.current_version_id then
    insert into history.events (kind, app, owner, fence, version)
    values ('switch', new.number, new.owner, new.fence, encode(new.current_version_id, 'hex'));
  end if;
  return null;
end $$;
create trigger app after insert or update on public.apps for each row execute function history.app();

create function history.run() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and old.state = new.state and old.fence = new.fence then return null; end if;
  insert into history.events (kind, app, owner, fence, run, state, before) values (
    'run', new.app_number, coalesce(new.owner, case when tg_op = 'UPDATE' then old.owner end), new.fence,
    encode(new.id, 'hex'), new.state, case when tg_op = 'UPDATE' then old.state end
  );
  return null;
end $$;
create trigger run after insert or update on public.runs for each row execute function history.run();
`;

const EVENTS = `
select number, role, kind, app, owner, fence, run, state, before, version,
  extract(epoch from pg_xact_commit_timestamp(xid::xid)) * 1000 as "committedAt"
from history.events order by pg_xact_commit_timestamp(xid::xid), number`;

type Row = {
  readonly [Name in keyof Event]: Event[Name] extends number | null ? string | number | null : Event[Name];
};

/** What happened in a cluster, by what the database has written down. */
export class History {
  readonly #client: Client | Pool;

  private constructor(client: Client | Pool) {
    this.#client = client;
  }

  static async begin(client: Client | Pool): Promise<History> {
    await client.query(SCHEMA);
    return new History(client);
  }

  /** The others reach that node by this way. */
  async lead(role: string, way: string): Promise<void> {
    await this.#client.query("insert into history.ways (role, way) values ($1, $2)", [role, way]);
  }

  /** All of it, in the order in which it became true. */
  async read(): Promise<Event[]> {
    const { rows } = await this.#client.query<Row>(EVENTS);
    return rows.map((row) => ({
      ...row,
      number: Number(row.number),
      app: numberOrNull(row.app),
      fence: numberOrNull(row.fence),
      state: numberOrNull(row.state),
      before: numberOrNull(row.before),
      committedAt: Number(row.committedAt),
    }));
  }

  /** How often each run has ended, by its id in hex. */
  async ends(): Promise<Map<string, number>> {
    const finals = RUN_STATES.flatMap((state, index) => (isFinal(state) ? [index] : []));
    const { rows } = await this.#client.query<{ run: string; count: string }>(
      "select run, count(*) from history.events where kind = 'run' and state = any($1) group by run",
      [finals],
    );
    return new Map(rows.map(({ run, count }) => [run, Number(count)]));
  }

  /** The number of each app. */
  async appNumbers(): Promise<Map<string, number>> {
    const { rows } = await this.#client.query<{ name: string; number: string }>(
      "select name, number from apps where deleted_at is null",
    );
    return new Map(rows.map(({ name, number }) => [name, Number(number)]));
  }

  async ownerOf(app: string): Promise<string | null> {
    const { rows } = await this.#client.query<{ owner: string | null }>(
      "select owner from apps where name = $1 and deleted_at is null",
      [app],
    );
    return rows[0]?.owner ?? null;
  }

  /** The nodes whose leases stand, and who has each app. */
  async places(): Promise<{ readonly living: readonly Candidate[]; readonly apps: readonly AppPlace[] }> {
    const nodes = await this.#client.query<{ id: string; details: string }>(
      "select id, details from owners where details is not null and lease_until > extract(epoch from clock_timestamp()) * 1000",
    );
    const apps = await this.#client.query<{ number: string; owner: string | null }>(
      "select number, owner from apps where deleted_at is null",
    );
    return {
      living: nodes.rows.map(({ id, details }) => ({
        id,
        details: JSON.parse(details) as Candidate["details"],
      })),
      apps: apps.rows.map(({ number, owner }) => ({ number: Number(number), owner })),
    };
  }
}

type AppPlace = { readonly number: number; readonly owner: string | null };

function numberOrNull(value: string | number | null): number | null {
  return value === null ? null : Number(value);
}
