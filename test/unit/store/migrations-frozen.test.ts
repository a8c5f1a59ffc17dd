import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { KNOWN_MIGRATIONS } from "../../../src/store/migrate.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const FOLDER = path.join(REPOSITORY, "src", "store", "migrations");

/** The start of each file's SHA-256. A migration that is committed never changes: write the next one. */
const HASHES: Readonly<Record<string, string>> = {
  "0001-first-tables": "dfb132df1c9dadd0",
  "0002-async-runs": "04be70e22a53e1bd",
  "0003-people": "f6b9569273efa4ec",
  "0004-logs": "f65ed5223e8d82b0",
  "0005-audit-and-secrets": "9a298bd22a202e9a",
  "0006-run-filters": "4b7b6b438f09ec2a",
  "0007-builds": "7d3ee661fda8507d",
  "0009-delivery-age": "216579804c56c5ca",
  "0010-invitations": "d2f15853e2224c07",
  "0011-places": "0ab63ef9c04c7ff7",
  "0012-log-shares": "83587e885a487ea0",
  "0013-run-traffic": "52e6be997fa2f6c1",
  "0014-nodes": "a9f1662a7ad0db37",
  "0015-changes": "88cef48d7f02baa9",
  "0016-blobs": "780cc8cde79fba83",
  "0017-large-payloads": "bbb46d51249650a3",
  "0018-seats": "688c9814f3519908",
  "0019-seat-workloads": "4439445f28cabbd1",
  "0020-host-labels": "31c8881415386bce",
  "0021-call-accounts": "f5abf07e0a1c5059",
};

verifies("upgrade.frozen", "a committed migration never changes", () => {
  const files = readdirSync(FOLDER).filter((name) => /^\d{4}-/.test(name));
  expect(files.map((name) => path.basename(name, ".ts")).toSorted()).toEqual(KNOWN_MIGRATIONS);
  const hashes = files.map((name) => [
    path.basename(name, ".ts"),
    createHash("sha256")
      .update(readFileSync(path.join(FOLDER, name)))
      .digest("hex")
      .slice(0, 16),
  ]);
  expect(Object.fromEntries(hashes)).toEqual(HASHES);
});
