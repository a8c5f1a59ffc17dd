import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { mayLead } from "../../../../src/cli/operator/archive.ts";
import { scratchDirectory } from "../../../support/command-line.ts";
import { REPOSITORY } from "../../../support/source-files.ts";

/** Root, too, may then open only what the modes allow. */
const HELD =
  process.getuid?.() === 0 ? ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] : ["env"];
const ADD = `
const [code, dataDir, file] = process.argv.slice(1);
const { addDataDirectory } = await import(code + "/src/cli/operator/archive.ts");
const { TarWriter } = await import(code + "/src/kit/tar/archive.ts");
const tar = await TarWriter.create(file);
const odd = { leftOut: [], changed: [] };
const failed = await addDataDirectory(tar, dataDir, odd).then(() => null, ({ code }) => code);
console.log(JSON.stringify({ failed, ...odd }));
`;

test("what an app has closed to its own user is left out of a backup, which has the rest", () => {
  const place = scratchDirectory();
  const dataDir = path.join(place, "data");
  const [program = "", ...held] = HELD;
  const args = [...held, process.execPath, "--input-type=module", "-e", ADD, REPOSITORY, dataDir];
  const add = (name: string) =>
    JSON.parse(execFileSync(program, [...args, path.join(place, name)], { encoding: "utf8" })) as unknown;
  const folders = [".", "storage", "storage/p-a", "storage/p-a/in", "storage/p-b", "storage/p-c"];
  const files = ["storage/p-a/closed", "storage/p-a/in/file", "storage/p-c/open"];
  for (const name of folders) mkdirSync(path.join(dataDir, name), { recursive: true });
  for (const name of files) writeFileSync(path.join(dataDir, name), "what the rest is");
  for (const [name, mode] of [
    ["storage/p-a/closed", 0],
    ["storage/p-a/in", 0o300],
    ["storage/p-b", 0],
  ] as const)
    chmodSync(path.join(dataDir, name), mode);
  const leftOut = ["storage/p-a/closed", "storage/p-a/in", "storage/p-b"];
  expect(add("first.tar")).toEqual({ failed: null, leftOut, changed: [] });
  expect(readFileSync(path.join(place, "first.tar"), "latin1")).toContain("what the rest is");
  // The service's own files must all be there.
  writeFileSync(path.join(dataDir, "owner-token"), "x", { mode: 0 });
  expect(add("second.tar")).toMatchObject({ failed: "EACCES" });
});

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
