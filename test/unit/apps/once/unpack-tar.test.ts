import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { MAX_TAR_BYTES, unpackTar } from "../../../../src/apps/once/unpack-tar.ts";
import { packHeader, type TarHeader } from "../../../../src/kit/tar/archive.ts";
import { verifies } from "../../../verifies.ts";

const END = Buffer.alloc(1024);

async function scratch(): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "millrace-tar-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

function entry(name: string, content = "", more: Partial<TarHeader> = {}): Buffer {
  const bytes = Buffer.from(content);
  const header = {
    name,
    kind: "file",
    mode: 0o644,
    sizeBytes: bytes.length,
    modifiedAt: 0,
    target: "",
  } as const;
  const block = packHeader({ ...header, ...more });
  return Buffer.concat([block, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]);
}

/** The archive in pieces of an odd size. */
async function* inPieces(archive: Buffer, pieceBytes = 333): AsyncGenerator<Buffer> {
  for (let at = 0; at < archive.length; at += pieceBytes) yield archive.subarray(at, at + pieceBytes);
}

async function unpack(...entries: Buffer[]): Promise<string> {
  const into = await scratch();
  await unpackTar(inPieces(Buffer.concat([...entries, END])), into);
  return into;
}

test("files and folders come out with their content, and programs stay programs", async () => {
  const into = await unpack(
    entry("./", "", { kind: "directory" }),
    entry("./main.py", "print(1)\n"),
    entry("./deep/down/data.bin", "x".repeat(5_000)),
    entry("tool", "#!/bin/sh\n", { mode: 0o4755 }),
  );
  expect(await readFile(path.join(into, "main.py"), "utf8")).toBe("print(1)\n");
  expect((await readFile(path.join(into, "deep/down/data.bin"))).length).toBe(5_000);
  const modes = await Promise.all(
    ["main.py", "tool"].map(async (name) => (await stat(path.join(into, name))).mode & 0o7777),
  );
  expect(modes).toEqual([0o644, 0o755]);
});

test("what the machine's own tar writes is read, long names too", async () => {
  const [source, into] = [await scratch(), await scratch()];
  const long = path.join("a".repeat(60), "b".repeat(60), "main.py");
  await mkdir(path.dirname(path.join(source, long)), { recursive: true });
  await writeFile(path.join(source, long), "long\n");
  const { stdout } = await promisify(execFile)("tar", ["--format=pax", "-C", source, "-cf", "-", "."], {
    encoding: "buffer",
  });
  await unpackTar(inPieces(stdout), into);
  expect(await readFile(path.join(into, long), "utf8")).toBe("long\n");
});

test.for([
  ["a link", entry("link", "", { kind: "link", target: "/etc/passwd" }), "`link` is a link"],
  ["a name that leads out", entry("../evil", "x"), "which could lead out of its folder"],
  ["a name that leads out in its middle", entry("a/../../evil", "x"), "which could lead out of its folder"],
  ["an absolute name", entry("/etc/evil", "x"), "is absolute"],
  ["a name with a line break", entry("a\nb", "x"), "contains a control character"],
  ["a folder as a file", entry("a/", "x"), "is the name of a folder"],
  ["an end that is missing", entry("main.py", "x").subarray(0, 600), "it ends too early"],
  ["what is no archive", Buffer.from("PK\u0003\u0004".padEnd(2_000, "x")), "not a readable archive"],
] as const)("%s is refused", async ([, bytes, why]) => {
  const into = await scratch();
  await expect(unpackTar(inPieces(bytes), into)).rejects.toMatchObject({
    code: "upload_invalid",
    message: expect.stringContaining(why),
  });
  expect(await readdir(into)).toEqual(bytes.length === 600 ? ["main.py"] : []);
});

test.for(["1", "3", "4", "6"])("an entry of kind %s, a hard link or a device, is refused", async (kind) => {
  const block = packHeader({ name: "x", kind: "file", mode: 0, sizeBytes: 0, modifiedAt: 0, target: "" });
  const change = kind.charCodeAt(0) - "0".charCodeAt(0);
  block.write(kind, 156, "latin1");
  const sum = Number.parseInt(block.toString("latin1", 148, 154), 8) + change;
  block.write(sum.toString(8).padStart(6, "0"), 148, "latin1");
  await expect(unpack(block)).rejects.toMatchObject({
    code: "upload_invalid",
    message: expect.stringContaining(`a kind that is not allowed (${kind})`),
  });
});

test("a name that stands twice is refused, also as a file and a folder", async () => {
  const twice = { code: "upload_invalid", message: expect.stringContaining("the same name") };
  await expect(unpack(entry("a", "1"), entry("./a", "2"))).rejects.toMatchObject(twice);
  await expect(unpack(entry("a", "1"), entry("a/b", "2"))).rejects.toMatchObject(twice);
});

test("nothing is written through a link that is there already", async () => {
  const [into, outside] = [await scratch(), await scratch()];
  await symlink(path.join(outside, "file"), path.join(into, "main.py"));
  const archive = Buffer.concat([entry("main.py", "x"), END]);
  await expect(unpackTar(inPieces(archive), into)).rejects.toMatchObject({ code: "upload_invalid" });
  expect(await readdir(outside)).toEqual([]);
});

test("more bytes than an archive may have are refused as they come", async () => {
  const head = packHeader({
    name: "big",
    kind: "file",
    mode: 0o644,
    sizeBytes: 2 * MAX_TAR_BYTES,
    modifiedAt: 0,
    target: "",
  });
  let sentBytes = 0;
  async function* endless(): AsyncGenerator<Buffer> {
    yield head;
    for (const piece = Buffer.alloc(1024 * 1024); ; sentBytes += piece.length) yield piece;
  }
  await expect(unpackTar(endless(), await scratch())).rejects.toMatchObject({ code: "body_too_large" });
  expect(sentBytes).toBeLessThanOrEqual(MAX_TAR_BYTES);
});

verifies("hardening.archives", "folders that only names ask for count as entries", async () => {
  const archive = Buffer.concat([
    entry("a/b/c/one"),
    entry("a/b/two"),
    entry("./", "", { kind: "directory" }),
    END,
  ]);
  await unpackTar(inPieces(archive), await scratch(), 5);
  await expect(unpackTar(inPieces(archive), await scratch(), 4)).rejects.toMatchObject({
    code: "upload_invalid",
    message: expect.stringContaining("more than 4 files and folders"),
  });
});

verifies("hardening.archives", "entries that come to nothing count too", async () => {
  const again = Array.from({ length: 4 }, () => entry("a/", "", { kind: "directory" }));
  await expect(unpackTar(inPieces(Buffer.concat([...again, END])), await scratch(), 3)).rejects.toMatchObject(
    { code: "upload_invalid" },
  );
});
