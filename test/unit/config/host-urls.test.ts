import { expect, test } from "vitest";
import { readSettings } from "../../../src/config/settings.ts";
import { hostUrls } from "../../../src/config/cluster-keys.ts";
import { dumpCommand } from "../../../src/store/postgres/backup.ts";

test("an address with one host stands for itself", () => {
  for (const url of [
    "postgres://u:p@h/db",
    "postgresql://u@%2Frun%2Fpg:5433/db?sslmode=require",
    "postgres:///db?host=/run",
  ]) {
    expect(hostUrls(url)).toEqual([url]);
  }
});

test("one with several stands for one address each, as libpq reads it", () => {
  expect(hostUrls("postgres://u:p@a:1,b,%2Frun:3/db?target_session_attrs=read-write")).toEqual([
    "postgres://u:p@a:1/db?target_session_attrs=read-write",
    "postgres://u:p@b/db?target_session_attrs=read-write",
    "postgres://u:p@%2Frun:3/db?target_session_attrs=read-write",
  ]);
  expect(hostUrls("postgres:///db?host=a,b&port=1,2")).toEqual([
    "postgres:///db?host=a&port=1",
    "postgres:///db?host=b&port=2",
  ]);
  expect(hostUrls("postgres:///db?host=a,b&port=1")[1]).toBe("postgres:///db?host=b&port=1");
});

test("a setting may name several hosts, each of which has to be one; a printed command has no password", () => {
  const databaseUrl = "postgres://u:p%40ss@a:1,b:2/db";
  expect(readSettings({ flags: { databaseUrl }, env: {} }).settings.databaseUrl).toBe(databaseUrl);
  expect(() => readSettings({ flags: { databaseUrl: "postgres://u@a:1,b:x/db" }, env: {} })).toThrow(
    /database/,
  );
  expect(dumpCommand(databaseUrl)).toBe(
    "pg_dump --format=custom --file=millrace.dump 'postgres://u@a:1,b:2/db'",
  );
});
