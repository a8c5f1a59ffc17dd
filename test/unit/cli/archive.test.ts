import { expect, test } from "vitest";
import { staysInside } from "../../../src/cli/archive.ts";

test.each([
  ["storage/p/link", "file"],
  ["storage/p/link", "folder/file"],
  ["storage/p/folder/link", "../file"],
  ["storage/p/hub/snapshots/main/model", "../../blobs/abc"],
])("the link %s → %s stays in its project", (name, target) => {
  expect(staysInside(name, target)).toBe(true);
});

test.each([
  ["storage/p/link", "/etc/passwd"],
  ["storage/p/link", ".."],
  ["storage/p/link", "../other/file"],
  ["storage/p/folder/link", "../../other"],
  ["storage/p/folder/link", "../folder/../../x"],
  ["storage/p/link", "folder/../../../master.key"],
  ["storage/link", "p/file"],
  ["link", "master.key"],
  ["storage/p/link", ""],
  ["storage/p/link", "a\0b"],
])("the link %s → %s may lead out of it", (name, target) => {
  expect(staysInside(name, target)).toBe(false);
});
