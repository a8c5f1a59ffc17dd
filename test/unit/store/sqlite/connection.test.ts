import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, expect, test } from "vitest";
import { configure, openForReading, openForWriting } from "../../../../src/store/sqlite/connection.ts";
import { verifies } from "../../../verifies.ts";

const dir = mkdtempSync(join(tmpdir(), "millrace-sqlite-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const pragma = (database: DatabaseSync, name: string) =>
  Object.values(database.prepare(`pragma ${name}`).get() ?? {})[0];

verifies("store.pragmas", "both connections have what durability rests on", () => {
  const path = join(dir, "a.db");
  for (const database of [openForWriting(path), openForReading(path)]) {
    expect(
      ["journal_mode", "synchronous", "foreign_keys", "busy_timeout"].map((n) => pragma(database, n)),
    ).toEqual(["wal", 2, 1, 5_000]);
    database.close();
  }
});

verifies(
  "store.pragmas",
  "a connection that will not keep a log ahead of its writes is refused, and closed",
  () => {
    // A database in memory has no log to write ahead.
    const database = new DatabaseSync(":memory:");
    expect(() => configure(database)).toThrow("SQLite has journal_mode = memory where wal is needed");
    expect(database.isOpen).toBe(false);
  },
);

test("the reading connection cannot write", () => {
  const path = join(dir, "b.db");
  const writer = openForWriting(path);
  writer.exec("create table t (x)");
  const reader = openForReading(path);
  expect(() => reader.exec("insert into t values (1)")).toThrow("attempt to write a readonly database");
  reader.close();
  writer.close();
});

/** Makes the database, and holds its lock until another connection is trying to change the journal. */
const HOLDER = `
const { readdirSync, readlinkSync } = require("node:fs");
const { DatabaseSync } = require("node:sqlite");
const { parentPort, workerData: path } = require("node:worker_threads");
const wait = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
const opened = () => readdirSync("/proc/self/fd").filter((name) => {
  try {
    return readlinkSync("/proc/self/fd/" + name) === path;
  } catch {
    return false;
  }
}).length;
const database = new DatabaseSync(path);
database.exec("pragma auto_vacuum = 2; create table t (x); begin immediate");
parentPort.postMessage("held");
while (opened() < 2) wait();
wait();
database.exec("commit");
database.close();
`;

test("two that open a new database at once do not keep each other out", async () => {
  const path = join(dir, "c.db");
  const holder = new Worker(HOLDER, { eval: true, workerData: path });
  const ended = once(holder, "exit");
  await once(holder, "message");
  openForWriting(path).close();
  await ended;
});
