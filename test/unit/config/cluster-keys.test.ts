import { expect, test } from "vitest";
import { hostUrls, KUBERNETES_KEYS, NODE_KEYS } from "../../../src/config/cluster-keys.ts";
import { verifies } from "../../verifies.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { dumpCommand } from "../../../src/store/postgres/backup.ts";
import { blobAddress } from "../../../src/config/blob-address.ts";

test("a node's address has https and a port, and nothing else", () => {
  const { read } = NODE_KEYS.nodeUrl.reader;
  expect(read("https://10.0.0.5:4200/")).toBe("https://10.0.0.5:4200");
  expect(read("https://[fd00::5]:4200")).toBe("https://[fd00::5]:4200");
  for (const url of [
    "10.0.0.5:4200",
    "http://a:1",
    "https://a",
    "https://a:1/b",
    "https://u@a:1",
    "https://a:1?b",
  ])
    expect(read(url)).toBeUndefined();
});

verifies("buildkit.logins", "a registry is a host that is not the pod itself, with a path", () => {
  const { reader } = KUBERNETES_KEYS.registry;
  for (const name of ["registry.internal", "registry:5000/a/b_c", "10.0.0.7:5000/millrace"])
    expect(reader.read(name)).toBe(name);
  const bad = ["localhost", "localhost:5000/millrace", "127.0.0.1:5000", "millrace", "a.b/UP", "a.b/x:1"];
  for (const name of [...bad, "https://a.b", "a.b/../c", "a.b//c"]) expect(reader.read(name)).toBeUndefined();
});

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

verifies("blobs.setting", "a directory and a bucket are read", () => {
  expect(blobAddress.read("/srv/blobs/")).toEqual({ kind: "directory", path: "/srv/blobs" });
  expect(blobAddress.read("file:///srv/my%20blobs")).toEqual({ kind: "directory", path: "/srv/my blobs" });
  const plain = {
    kind: "s3",
    bucket: "my-bucket",
    prefix: "",
    endpoint: null,
    region: null,
    isPathStyle: false,
  };
  expect(blobAddress.read("s3://my-bucket")).toEqual(plain);
  expect(blobAddress.read("s3://my-bucket/")).toEqual(plain);
  const options = "endpoint=http://store:9000&region=eu-1&path_style=true";
  expect(blobAddress.read(`s3://my-bucket/a/b?${options}`)).toEqual({
    ...plain,
    prefix: "a/b/",
    endpoint: "http://store:9000",
    region: "eu-1",
    isPathStyle: true,
  });
});

verifies("blobs.setting", "anything else is refused", () => {
  for (const text of [
    "",
    "blobs",
    "./blobs",
    "file://host/path",
    "https://bucket",
    "s3://",
    "s3://B",
    "s3://user:secret@bucket",
    "s3://bucket:80",
    "s3://bucket/a//b",
    "s3://bucket/a%20b",
    "s3://bucket/../x%2f",
    "s3://bucket?other=1",
    "s3://bucket?region=eu-1&region=eu-2&region=eu-3&region=eu-4",
    "s3://bucket?region=EU",
    "s3://bucket?path_style=yes",
    "s3://bucket?endpoint=ftp://x",
    "s3://bucket?endpoint=http://x/y",
    "s3://bucket?endpoint=http://u:p@x",
    `/${"x".repeat(5_000)}`,
    "/a\0b",
  ])
    expect([text.slice(0, 80), blobAddress.read(text)]).toEqual([text.slice(0, 80), undefined]);
});
