import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { KNOWN_MIGRATIONS } from "../../../../src/store/schema/migrate.ts";
import { INITIAL_TABLES } from "../../../../src/store/schema/0001-initial.ts";
import { BATCH_COLUMNS } from "../../../../src/store/schema/0002-batches.ts";
import {
  columnStatements,
  POSTGRES_DIALECT,
  SQLITE_DIALECT,
  statementsFor,
} from "../../../../src/store/schema/tables.ts";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

const FOLDER = path.join(REPOSITORY, "src", "store", "schema");

/** The start of each file's SHA-256. A migration that has been released never changes: write the next one. */
const HASHES: Readonly<Record<string, string>> = {
  "0001-initial.ts": "c40eb3ea553add6d",
  "0002-batches.ts": "a48495cbb0b5e495",
  "0003-queues.ts": "d640803a258437ce",
  "0004-checkpoints.ts": "308d0d075e889d47",
  "0005-schedules.ts": "e127f4ff95b21534",
  "0006-queue-limits.ts": "c571dd70544d3723",
  "0007-account-weight.ts": "95b7f4cf1f24d8f9",
  "0008-queue-state.ts": "b613e43d26121e36",
  "0009-bulk-jobs.ts": "380801c677a2583c",
  "0010-batches.ts": "ff1d4fe2026dc5c8",
  "0011-traces.ts": "f814360072c4a15d",
  "0012-openai-batches.ts": "af9c3d4714eb4245",
  "0013-usage.ts": "d19c84a5f1100bc8",
};

/** The same of the statements that the declared tables become. They are those of the file before it was a declaration. */
const STATEMENT_HASHES = { sqlite: "27fb630c5c63ec9e", postgres: "92581a788705b9c1" };

const hashOf = (content: string | Buffer) => createHash("sha256").update(content).digest("hex").slice(0, 16);

verifies("upgrade.frozen", "a released migration never changes", () => {
  const files = readdirSync(FOLDER).filter((name) => /^\d{4}-/.test(name));
  expect(files).toEqual(expect.arrayContaining(KNOWN_MIGRATIONS.map((name) => `${name}.ts`)));
  const hashes = files.map((name) => [name, hashOf(readFileSync(path.join(FOLDER, name)))]);
  expect(Object.fromEntries(hashes)).toEqual(HASHES);
  const statements = [SQLITE_DIALECT, POSTGRES_DIALECT].map((dialect) => [
    dialect.kind,
    hashOf(statementsFor(dialect, INITIAL_TABLES).join("\n")),
  ]);
  expect(Object.fromEntries(statements)).toEqual(STATEMENT_HASHES);
  for (const dialect of [SQLITE_DIALECT, POSTGRES_DIALECT])
    expect(columnStatements(dialect, BATCH_COLUMNS)).toEqual([
      `alter table runs add column batch_size ${dialect.smallint}`,
      `alter table runs add column batch_reason ${dialect.smallint}`,
    ]);
});
