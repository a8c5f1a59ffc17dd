import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const FOLDER = path.join(REPOSITORY, "src", "store", "migrations");
/** From here on services of two releases share a database while they are brought to the later one. */
const FIRST_SHARED = "0014-nodes.ts";

const TAKING_AWAY = /\.(?:drop\w+|rename\w+|alterColumn|modifyColumn|setSchema)\(|\b(?:drop|rename)\s+\w/i;
const BINDING = /\.(?:addUniqueConstraint|addCheckConstraint|addForeignKeyConstraint|unique)\(/;
/** A contraction says which migration it completes, and from which one on a release can be served. */
const CONTRACTION = /Contracts `(\d{4}-[\w-]+)`/;

/**
 * A check that is given up takes nothing from services that keep to it. SQLite cannot drop one, so there the table is
 * made again: no other service is beside.
 */
const WIDENING = /Widens `\w+\.\w+`/;
const GIVING_UP_A_CHECK = /drop constraint \w+_check|async function remakeOnSqlite\([\s\S]*?\n}\n/g;

/** What services of the release before could not live with. */
function faultsOf(text: string): string[] {
  const source = WIDENING.test(text) ? text.replaceAll(GIVING_UP_A_CHECK, "") : text;
  const changed = source.match(/\.alterTable\([\s\S]*?\.execute\(\)/g) ?? [];
  const faults = [
    ...(TAKING_AWAY.test(source) ? ["takes something away"] : []),
    ...changed.flatMap((statement) => [
      ...(/\.notNull\(\)/.test(statement) && !/\.defaultTo\(/.test(statement)
        ? ["adds a column that every row must fill, without a default"]
        : []),
      ...(BINDING.test(statement) ? ["binds rows that others write"] : []),
    ]),
  ];
  return CONTRACTION.test(source) && source.includes("serves_from") ? [] : faults;
}

verifies("upgrade.additive", "each migration only adds, or says whom it still serves", () => {
  const files = readdirSync(FOLDER).filter((name) => /^\d{4}-/.test(name) && name >= FIRST_SHARED);
  expect(files.length).toBeGreaterThan(1);
  const faults = files.map((name) => [name, faultsOf(readFileSync(path.join(FOLDER, name), "utf8"))]);
  expect(Object.fromEntries(faults)).toEqual(Object.fromEntries(files.map((name) => [name, []])));
});

test.each([
  ['await db.schema.dropTable("apps").execute();', "takes something away"],
  ['await db.schema.alterTable("apps").renameColumn("a", "b").execute();', "takes something away"],
  ["await sql`alter table apps drop column name`.execute(db);", "takes something away"],
  ["await sql`alter table apps drop constraint apps_name_check`.execute(db);", "takes something away"],
  [
    "/** Widens `apps.name`. */ await sql`alter table apps drop column name`.execute(db);",
    "takes something away",
  ],
  [
    'await db.schema.alterTable("apps").addColumn("a", "text", (c) => c.notNull()).execute();',
    "adds a column that every row must fill, without a default",
  ],
  [
    'await db.schema.alterTable("apps").addUniqueConstraint("u", ["name"]).execute();',
    "binds rows that others write",
  ],
])("it sees what is wrong with %s", (source, fault) => {
  expect(faultsOf(source)).toEqual([fault]);
});

test("a check may be given up by a migration that says so", () => {
  const source = "/** Widens `apps.name`. */ await sql`alter table apps drop constraint apps_name_check`";
  expect(faultsOf(source)).toEqual([]);
});

test("a contraction that says so may take away", () => {
  const source = '/** Contracts `0014-nodes`. */ db.dropTable("x"); set("serves_from", "0015-changes")';
  expect(faultsOf(source)).toEqual([]);
});
