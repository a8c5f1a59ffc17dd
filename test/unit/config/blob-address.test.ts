import { expect } from "vitest";
import { blobAddress } from "../../../src/config/blob-address.ts";
import { verifies } from "../../verifies.ts";

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
