import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

const FOLDER = path.join(REPOSITORY, "src", "store", "schema");
/** The first migration makes the database; with each one after it, services of two releases share it for a while. */
const FIRST = /^0001-/;
const EXAMPLE = path.join(REPOSITORY, "test", "support", "example-migration.ts");

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

/** An index that another takes the place of was of no use to them, or only made them faster. */
const REPLACING = /`\w+` takes the place of `(\w+)`/;

/** What services of the release before could not live with. */
function faultsOf(text: string): string[] {
  const widened = WIDENING.test(text) ? text.replaceAll(GIVING_UP_A_CHECK, "") : text;
  const [, replaced] = REPLACING.exec(text) ?? [];
  const source = replaced ? widened.replace(`drop index ${replaced}`, "") : widened;
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
  const names = readdirSync(FOLDER).filter((name) => /^\d{4}-/.test(name) && !FIRST.test(name));
  const files = [EXAMPLE, ...names.map((name) => path.join(FOLDER, name))];
  const faults = files.map((file) => [file, faultsOf(readFileSync(file, "utf8"))]);
  expect(Object.fromEntries(faults)).toEqual(Object.fromEntries(files.map((file) => [file, []])));
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

test("an index may be replaced by a migration that says so", () => {
  const source = "/** `b` takes the place of `a`. */ await sql`drop index a`.execute(db);";
  expect(faultsOf(source)).toEqual([]);
  expect(faultsOf(source.replace("drop index a", "drop index c"))).toEqual(["takes something away"]);
});

test("a contraction that says so may take away", () => {
  const source = '/** Contracts `0002-example`. */ db.dropTable("x"); set("serves_from", "0003-next")';
  expect(faultsOf(source)).toEqual([]);
});
