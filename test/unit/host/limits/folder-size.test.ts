import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { folderBytes } from "../../../../src/host/limits/folder-size.ts";
import { scratchDirectory } from "../../../support/command-line.ts";
import { verifies } from "../../../verifies.ts";

const MIB = 1024 * 1024;
const run = async (code: string, folder: string) =>
  await promisify(execFile)("python3", ["-c", code, folder]);
/** Writes a megabyte below so many folders, each of that name. */
const hide = (name: string, depth: number): string => `import os, sys
os.chdir(sys.argv[1])
for _ in range(${depth}):
    os.mkdir(${name})
    os.chdir(${name})
open(b"\\xfe", "wb").write(bytes(${MIB}))
`;

verifies("walls.limits.disk", "no name and no depth hides files from being counted", async () => {
  for (const [name, depth] of [
    ['b"plain"', 1],
    ['b"\\xff"', 2],
    ['"d"', 100],
    ['"d" * 255', 60],
    ['"d"', 1_000],
  ] as const) {
    const folder = scratchDirectory();
    await run(hide(name, depth), folder);
    expect([name, depth, (await folderBytes(folder, 10 * MIB)) >= MIB]).toEqual([name, depth, true]);
  }
});

verifies("walls.limits.disk", "what a link leads to is not counted, but for the folder itself", async () => {
  const place = scratchDirectory();
  const [folder, other] = [path.join(place, "folder"), path.join(place, "other")];
  for (const each of [folder, other]) mkdirSync(each);
  writeFileSync(path.join(other, "large"), Buffer.alloc(MIB));
  symlinkSync(other, path.join(folder, "link"));
  expect(await folderBytes(folder, 10 * MIB)).toBeLessThan(MIB);
  expect(await folderBytes(path.join(folder, "link"), 10 * MIB)).toBeGreaterThanOrEqual(MIB);
});

verifies("walls.limits.disk", "empty files count, as a disk holds only so many", async () => {
  const folder = scratchDirectory();
  for (let index = 0; index < 1_000; index++) writeFileSync(path.join(folder, `empty-${index}`), "");
  expect(await folderBytes(folder, 10 * MIB)).toBeGreaterThan(3 * MIB);
});
