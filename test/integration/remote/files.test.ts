import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
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
import { gzipSync, zstdDecompressSync } from "node:zlib";
import { expect, onTestFinished } from "vitest";
import { packFolder } from "../../../src/kit/tar/pack-folder.ts";
import { unpackFolder } from "../../../src/kit/tar/unpack-folder.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const UNPACK = `
import sys
sys.path.insert(0, sys.argv[1])
from millrace_agent.unpack import BadArchive, unpack
try:
    print(unpack(sys.argv[2], sys.argv[3], sys.argv[4]))
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
  "the invalid name 'in/x'":
    'add("deep", tarfile.DIRTYPE); add("in", tarfile.SYMTYPE, target="deep"); add("in/x"); seal()',
  "leads outside": 'add("long", tarfile.SYMTYPE, target="x" * 3001); seal()',
  "of a kind that is not allowed   ": 'add("x", tarfile.GNUTYPE_SPARSE); seal()',
  "of a kind that is not allowed    ": 'add("x", tarfile.GNUTYPE_LONGNAME, text="y" * 200); seal()',
  "of a kind that is not allowed     ": 'lie("x", 600, tarfile.DIRTYPE); seal()',
  "a header is too large": 'lie("x", 70000, tarfile.XHDTYPE); seal()',
  "an extended header has no entry": 'extend("9 path=a\\n"); extend("9 path=b\\n"); seal()',
  "a broken extended header": 'extend("99 path=a\\n"); add("x"); seal()',
  "a header has an invalid number": 'extend("11 size=-1\\n"); add("x"); seal()',
  "it ends too early": 'lie("x", 40960)',
  "it holds too much ": 'lie("x", 1 << 40); seal()',
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

const PACK = `
import sys
sys.path.insert(0, sys.argv[1])
from millrace_agent.pack import Unpackable, pack
try:
    with open(sys.argv[2], "wb") as file:
        pack(sys.argv[3], file.write, "ready")
except Unpackable as cannot:
    print("cannot:", cannot)
`;

const MAKE = `
import io, sys, tarfile
archive = tarfile.open(sys.argv[1], "w")
def add(name, kind=tarfile.REGTYPE, text="", target=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, target, len(text)
    archive.addfile(entry, io.BytesIO(text.encode()))
def lie(name, size, kind=tarfile.REGTYPE):
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, size
    archive.fileobj.write(entry.tobuf(tarfile.PAX_FORMAT))
def extend(text):
    lie("x", len(text), tarfile.XHDTYPE)
    archive.fileobj.write(text.encode().ljust(512, b"\\0"))
def seal():
    add("sha256", text="0" * 64)
`;

async function scratch(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "seat-files-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function unpack(packed: string, into: string, given = "given"): string {
  const python = path.join(REPOSITORY, "python");
  return execFileSync("python3", ["-c", UNPACK, python, packed, into, given], { encoding: "utf8" }).trim();
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
  "seats.files",
  "an archive that no service makes is refused, and nothing leaves its folder",
  async () => {
    for (const [index, [why, making]] of Object.entries(HOSTILE).entries()) {
      const folder = await scratch();
      const [inner, packed] = [path.join(folder, "inner"), path.join(folder, "packed")];
      await mkdir(path.join(inner, "into"), { recursive: true });
      execFileSync("python3", ["-c", `${MAKE}\n${making}\narchive.close()`, packed]);
      // Agents compress what they pack, services do not.
      if (index % 2 === 1) await writeFile(packed, gzipSync(await readFile(packed)));
      expect([why, unpack(packed, path.join(inner, "into"))]).toEqual([
        why,
        expect.stringContaining(why.trim()),
      ]);
      expect(await readdir(inner)).toEqual(["into"]);
      expect((await readdir(folder)).toSorted()).toEqual(["inner", "packed"]);
    }
  },
);

verifies(
  "pod-builds.judged",
  "an agent packs an environment without its interpreter, for agents and services",
  async () => {
    const folder = await scratch();
    const from = path.join(folder, "from");
    await mkdir(path.join(from, "bin"), { recursive: true });
    await mkdir(path.join(from, "ready"));
    await writeFile(path.join(from, "ready", "not-ours"), "");
    await symlink("/usr/bin/python3", path.join(from, "bin", "python"));
    await symlink("python", path.join(from, "bin", "python3"));
    await writeFile(path.join(from, "bin", "tool"), "#!/bin/sh\n".repeat(100_000));
    await chmod(path.join(from, "bin", "tool"), 0o755);
    await writeFile(path.join(from, "ü".repeat(120)), "long");
    await utimes(path.join(from, "bin"), 1_000_000_000, 1_000_000_000);
    const packed = path.join(folder, "packed");
    const pack = (): string =>
      execFileSync("python3", ["-c", PACK, path.join(REPOSITORY, "python"), packed, from], {
        encoding: "utf8",
      });
    expect(pack()).toBe("");
    const sent = await readFile(packed);
    expect(createHash("sha256").update(sent.subarray(0, -32)).digest()).toEqual(sent.subarray(-32));
    await writeFile(packed, sent.subarray(0, -32));
    const trees = [];
    for (const name of ["agent", "service"]) {
      const into = path.join(folder, name);
      await mkdir(into);
      const limits = { maxEntries: 100, maxBytes: 10_000_000 };
      if (name === "service")
        expect((await unpackFolder(packed, into, limits, "ready"))?.toString()).toBe(from);
      else expect(unpack(packed, into, "ready")).toBe(`b'${from}'`);
      trees.push(await treeOf(into));
    }
    await rm(path.join(from, "ready"), { recursive: true });
    await rm(path.join(from, "bin", "python"));
    await utimes(path.join(from, "bin"), 1_000_000_000, 1_000_000_000);
    expect(trees).toEqual([await treeOf(from), await treeOf(from)]);
    for (const target of ["/etc/passwd", "../../x", "x".repeat(3_001)]) {
      await rm(path.join(from, "link"), { force: true });
      await symlink(target, path.join(from, "link"));
      expect(pack()).toBe(`cannot: "link" is a link to "${target.slice(0, 200)}"\n`);
    }
  },
);
