import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { extractBundle } from "../../../../src/apps/bundles/extract.ts";

const PYTHON = `
import io, os, sys, zipfile
class Pipe(io.RawIOBase):
    def __init__(self, file): self.file = file
    def writable(self): return True
    def write(self, data): return self.file.write(data)
with open(sys.argv[1], "wb") as file:
    with zipfile.ZipFile(Pipe(file) if sys.argv[2] == "pipe" else file, "w", int(sys.argv[3])) as zip:
        zip.writestr("main.py", "x = 1\\n" * 50000)
        zip.mkdir("folder") if hasattr(zip, "mkdir") else zip.writestr("folder/", "")
        with zip.open("folder/ü.bin", "w", force_zip64=True) as entry:
            entry.write(bytes(range(256)) * 1000)
`;

test.each([
  ["file", "0"],
  ["file", "8"],
  ["pipe", "0"],
  ["pipe", "8"],
])("a zip that Python writes to a %s by method %s is taken", async (kind, method) => {
  const root = mkdtempSync(path.join(tmpdir(), "millrace-python-zip-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const zip = path.join(root, "in.zip");
  const into = path.join(root, "bundle");
  const { stderr } = spawnSync("python3", ["-c", PYTHON, zip, kind, method], { encoding: "utf8" });
  expect(stderr).toBe("");
  expect(await extractBundle(zip, into)).toEqual({ files: 2, bytes: 556_000, noMain: null });
  expect(readFileSync(path.join(into, "main.py"), "utf8")).toBe("x = 1\n".repeat(50_000));
  expect(readFileSync(path.join(into, "folder", "ü.bin")).at(-1)).toBe(255);
});
