import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { extractBundle } from "../../../../src/apps/bundles/extract.ts";
import { writeZip } from "../../../../src/apps/bundles/write-zip.ts";
import { ZipDirectory } from "../../../../src/apps/bundles/zip-directory.ts";

const root = mkdtempSync(path.join(tmpdir(), "millrace-write-zip-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const LARGE = randomBytes(500_000);
const CONTENTS: Readonly<Record<string, string | Buffer>> = {
  "main.py": "def run():\n    return 1\n",
  "pkg/run.sh": "#!/bin/sh\n",
  "pkg/empty": "",
  "bücher/日本語.txt": "é".repeat(1000),
  "weights.bin": LARGE,
};

function folder(): { name: string; path: string }[] {
  const dir = mkdtempSync(path.join(root, "folder-"));
  return Object.entries(CONTENTS).map(([name, content]) => {
    const file = path.join(dir, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
    chmodSync(file, name.endsWith(".sh") ? 0o775 : 0o600);
    return { name, path: file };
  });
}

async function zipped(files: { name: string; path: string }[]): Promise<string> {
  const file = path.join(mkdtempSync(path.join(root, "zip-")), "out.zip");
  await writeZip(files, createWriteStream(file));
  return file;
}

function python(...args: string[]): string {
  const { stdout, stderr } = spawnSync("python3", args, { encoding: "utf8" });
  expect(stderr).toBe("");
  return stdout;
}

test("Python finds no fault in a zip, and the same files", async () => {
  const zip = await zipped(folder());
  expect(python("-m", "zipfile", "-t", zip)).toMatch(/^Done testing/);
  const script = `
import hashlib, json, sys, zipfile
zip = zipfile.ZipFile(sys.argv[1])
print(json.dumps([[i.filename, oct(i.external_attr >> 16), i.date_time[0], len(zip.read(i))] for i in zip.infolist()]))`;
  expect(JSON.parse(python("-c", script, zip))).toEqual([
    ["bücher/日本語.txt", "0o100644", 1980, 2000],
    ["main.py", "0o100644", 1980, 24],
    ["pkg/empty", "0o100644", 1980, 0],
    ["pkg/run.sh", "0o100755", 1980, 10],
    ["weights.bin", "0o100644", 1980, 500_000],
  ]);
});

test("a zip is unpacked to the same files", async () => {
  const into = path.join(root, "unpacked");
  await extractBundle(await zipped(folder()), into);
  for (const [name, content] of Object.entries(CONTENTS)) {
    expect(readFileSync(path.join(into, name)).equals(Buffer.from(content))).toBe(true);
  }
  expect(statSync(path.join(into, "pkg/run.sh")).mode & 0o777).toBe(0o755);
});

test("equal files make equal zips, whatever their order and age", async () => {
  const [one, other] = [folder(), folder().toReversed()];
  for (const { path: file } of other) utimesSync(file, 1, 1);
  expect(readFileSync(await zipped(one)).equals(readFileSync(await zipped(other)))).toBe(true);
});

test("a zip goes as it is made into any stream", async () => {
  const to = new PassThrough({ highWaterMark: 100 });
  const [got] = await Promise.all([buffer(to), writeZip(folder(), to)]);
  expect(got.equals(readFileSync(await zipped(folder())))).toBe(true);
});

test("a file that is missing breaks the zip off", async () => {
  const to = new PassThrough();
  to.resume();
  const files = [...folder(), { name: "z", path: path.join(root, "missing") }];
  await expect(writeZip(files, to)).rejects.toThrow(/ENOENT/);
  expect(to.destroyed).toBe(true);
});

test("a reader who leaves ends the writing", async () => {
  const to = new PassThrough({ highWaterMark: 1000 });
  to.once("data", () => to.destroy(new Error("gone")));
  await expect(writeZip(folder(), to)).rejects.toThrow("gone");
});

test("a name that the service would refuse is refused before anything is written", async () => {
  const to = new PassThrough();
  const files = folder().map(({ path: file }) => ({ name: "pkg\\main.py", path: file }));
  await expect(writeZip(files, to)).rejects.toThrow("contains a backslash");
  expect(to.read()).toBe(null);
});

test("more files than the old format has room for are counted right", async () => {
  const file = path.join(root, "many.zip");
  const script = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as zip:
    zip.writestr("f", "")
    zip.filelist *= 65535`;
  python("-c", script, file);
  const handle = await open(file);
  expect((await ZipDirectory.open(handle)).zip.entryCount).toBe(65_535);
  await handle.close();
});
