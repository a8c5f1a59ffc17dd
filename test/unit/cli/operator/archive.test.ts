import { expect, test } from "vitest";
import { mayLead } from "../../../../src/cli/operator/archive.ts";

test.each([
  ["storage/p/link", "file"],
  ["storage/p/link", "folder/file"],
  ["storage/p/folder/link", "../file"],
  ["storage/p/hub/snapshots/main/model", "../../blobs/abc"],
  ["environments/0a1b/lib64", "lib"],
  ["environments/0a1b/bin/python3.11", "/usr/bin/python3.11"],
])("the link %s → %s stays in its project, or is an interpreter", (name, target) => {
  expect(mayLead(name, target)).toBe(true);
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
  ["storage/0a1b/bin/python3", "/usr/bin/python3"],
  ["environments/0a1b/bin/other", "/usr/bin/python3"],
  ["environments/0a1b/lib/bin/python", "/usr/bin/python3"],
])("the link %s → %s may lead out of it", (name, target) => {
  expect(mayLead(name, target)).toBe(false);
});
