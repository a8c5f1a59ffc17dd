import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { KNOWN_MIGRATIONS } from "../../../../src/store/schema/migrate.ts";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

const FOLDER = path.join(REPOSITORY, "src", "store", "schema");

/** The start of each file's SHA-256. A migration that has been released never changes: write the next one. */
const HASHES: Readonly<Record<string, string>> = {
  "0001-initial.ts": "1b2a9481d2b136d7",
  "0001-initial-people.ts": "dd89570c6a855a81",
};

verifies("upgrade.frozen", "a released migration never changes", () => {
  const files = readdirSync(FOLDER).filter((name) => /^\d{4}-/.test(name));
  expect(files).toEqual(expect.arrayContaining(KNOWN_MIGRATIONS.map((name) => `${name}.ts`)));
  const hashes = files.map((name) => {
    const hash = createHash("sha256").update(readFileSync(path.join(FOLDER, name)));
    return [name, hash.digest("hex").slice(0, 16)] as const;
  });
  expect(Object.fromEntries(hashes)).toEqual(HASHES);
});
