import { sql } from "kysely";
import type { Kysely } from "kysely";
import { columnNames } from "../column-batch.ts";
import type { Session, Written } from "../operation.ts";
import type { Schema } from "../schema.ts";
import { columnTable } from "./column-arrays.ts";

/** Writes column batches in one statement each, however many rows there are. */
export function columnWriter(db: Kysely<Schema>): Pick<Session, "insertColumns" | "updateColumns"> {
  return {
    insertColumns: async (table, batch, counted = []) => {
      const { source, valueOf } = columnTable(batch);
      const names = columnNames(batch);
      const sizes = counted.map((name) => sql`coalesce(length(${sql.ref(name)}), 0)`);
      const { rows } = await sql<Written>`
        with written as (
          insert into ${sql.table(table)} (${sql.join(names.map((name) => sql.ref(name)))})
          select ${sql.join(names.map(valueOf))} from ${source}
          on conflict do nothing
          returning ${sizes.length === 0 ? sql`0` : sql.join(sizes, sql` + `)} as size
        )
        select count(*) as rows, coalesce(sum(size), 0)::bigint as bytes from written
      `.execute(db);
      return rows[0]!;
    },
    updateColumns: async (table, batch, { match, where = {}, set = {} }) => {
      const { source, valueOf } = columnTable(batch);
      const own = (name: string) => sql.ref(`${table}.${name}`);
      const integers = new Set(batch.numbers.names);
      // Numbers travel as floats, and comparing those with integers would pass every index by.
      const matches = match.map((name) =>
        integers.has(name)
          ? sql`${own(name)} = ${valueOf(name)}::bigint`
          : sql`${own(name)} = ${valueOf(name)}`,
      );
      const conditions = Object.entries(where).map(([name, value]) => sql`${own(name)} = ${sql.lit(value)}`);
      const changes = [
        ...columnNames(batch)
          .filter((name) => !match.includes(name))
          .map((name) => sql`${sql.ref(name)} = ${valueOf(name)}`),
        ...Object.entries(set).map(([name, value]) => sql`${sql.ref(name)} = ${sql.lit(value)}`),
      ];
      const { rows } = await sql<{ place: number }>`
        update ${sql.table(table)} set ${sql.join(changes)} from ${source}
        where ${sql.join([...matches, ...conditions], sql` and `)}
        returning u.place - 1 as place
      `.execute(db);
      return rows.map(({ place }) => place).toSorted((a, b) => a - b);
    },
  };
}
