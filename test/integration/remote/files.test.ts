import { execFileSync } from "node:child_process";
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  readlink,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { zstdDecompressSync } from "node:zlib";
import { expect, onTestFinished } from "vitest";
import { packFolder } from "../../../src/kit/tar/pack-folder.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const UNPACK = `
import sys
sys.path.insert(0, sys.argv[1])
from millrace_agent.archive import BadArchive, unpack
try:
    print(unpack(sys.argv[2], sys.argv[3], "given"))
except BadArchive as bad:
    print("bad:", bad)
`;

/** Each makes an archive that no service makes; \`add(name, type, text, target)\` adds an entry, \`seal()\` its end. */
const HOSTILE: Readonly<Record<string, string>> = {
  "the invalid name '../up'": 'add("../up"); seal()',
  "the invalid name '/etc/x'": 'add("/etc/x"); seal()',
  "the invalid name 'a/../../b'": 'add("a/../../b"); seal()',
  "the invalid name 'a//b'": 'add("a//b"); seal()',
  "the invalid name 'twice'": 'add("twice"); add("twice"); seal()',
  "of a kind that is not allowed": 'add("x", tarfile.LNKTYPE, target="/etc/passwd"); seal()',
  "of a kind that is not allowed ": 'add("x", tarfile.CHRTYPE); seal()',
  "of a kind that is not allowed  ": 'add("x", tarfile.FIFOTYPE); seal()',
  "the link 'out' leads outside": 'add("out", tarfile.SYMTYPE, target="/etc"); seal()',
  "the link 'out' leads outside ": 'add("out", tarfile.SYMTYPE, target="../x"); seal()',
  "the link 'out' leads outside  ": 'add("out", tarfile.SYMTYPE, target="a/../../x"); seal()',
  "the invalid name 'a/out'":
    'add("a", tarfile.SYMTYPE, target="."); add("a/out", tarfile.SYMTYPE, target="../x"); seal()',
  "its end is missing": 'add("x")',
  "its end is missing ": 'seal(); add("x")',
  "its end is missing  ": 'add("sha256", text="short")',
  "it holds too much": 'add("given", text="x" * 70000); seal()',
};

const MAKE = `
import io, sys, tarfile
archive = tarfile.open(sys.argv[1], "w")
def add(name, kind=tarfile.REGTYPE, text="", target=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, target, len(text)
    archive.addfile(entry, io.BytesIO(text.encode()))
def seal():
    add("sha256", text="0" * 64)
`;

async function scratch(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "seat-files-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function unpack(packed: string, into: string): string {
  const python = path.join(REPOSITORY, "python");
  return execFileSync("python3", ["-c", UNPACK, python, packed, into], { encoding: "utf8" }).trim();
}

/** Names, kinds, rights, times and contents below a folder. */
async function treeOf(folder: string, below = ""): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const name of (await readdir(path.join(folder, below))).toSorted()) {
    const place = path.join(below, name);
    const whole = path.join(folder, place);
    const stats = await lstat(whole);
    if (stats.isSymbolicLink()) found.push([place, await readlink(whole)]);
    else {
      const content = stats.isFile() ? await readFile(whole, "latin1") : null;
      found.push([place, stats.mode & 0o777, Math.floor(stats.mtimeMs / 1000), content]);
      if (content === null) found.push(...(await treeOf(folder, place)));
    }
  }
  return found;
}

verifies(
  "seats.files",
  "an agent unpacks what a service has packed: names, rights, times and links",
  async () => {
    const folder = await scratch();
    const [from, into, packed] = ["from", "into", "packed"].map((name) => path.join(folder, name)) as [
      string,
      string,
      string,
    ];
    const deep = path.join(from, "a".repeat(90), "ü".repeat(60), "package");
    await mkdir(deep, { recursive: true });
    await mkdir(into);
    await writeFile(path.join(deep, "module.py"), "x = 1\n");
    await writeFile(path.join(from, "tool"), Buffer.from([0, 1, 2, 255]));
    await chmod(path.join(from, "tool"), 0o555);
    await writeFile(path.join(from, "empty"), "");
    // As the archive's own last entry is called.
    await writeFile(path.join(from, "sha256"), "0".repeat(64));
    await symlink("../tool", path.join(from, "a".repeat(90), "link"));
    await chmod(deep, 0o500);
    await utimes(path.join(deep, "module.py"), 1_000_000_000, 1_000_000_000);
    await writeFile(packed, zstdDecompressSync(await buffer(packFolder(from))));
    expect(unpack(packed, into)).toBe("None");
    expect(await treeOf(into)).toEqual(await treeOf(from));
    await chmod(deep, 0o700);
  },
);

verifies(
  "seats.hostile-files",
  "an archive that no service makes is refused, and nothing leaves its folder",
  async () => {
    for (const [why, making] of Object.entries(HOSTILE)) {
      const folder = await scratch();
      const [inner, packed] = [path.join(folder, "inner"), path.join(folder, "packed")];
      await mkdir(path.join(inner, "into"), { recursive: true });
      execFileSync("python3", ["-c", `${MAKE}\n${making}\narchive.close()`, packed]);
      expect([why, unpack(packed, path.join(inner, "into"))]).toEqual([
        why,
        expect.stringContaining(why.trim()),
      ]);
      expect(await readdir(inner)).toEqual(["into"]);
      expect((await readdir(folder)).toSorted()).toEqual(["inner", "packed"]);
    }
  },
);
