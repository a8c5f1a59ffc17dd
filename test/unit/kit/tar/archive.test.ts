import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { readHeader, readPax, TarReader, TarWriter } from "../../../../src/kit/tar/archive.ts";

const dir = mkdtempSync(path.join(tmpdir(), "millrace-tar-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

let last = 0;
/** Writes an archive; its path. */
async function write(fill: (tar: TarWriter) => Promise<unknown>): Promise<string> {
  const file = path.join(dir, `${(last += 1)}.tar`);
  const tar = await TarWriter.create(file);
  await fill(tar);
  await tar.finish();
  return file;
}

/** Every entry with its content as text. */
async function read(file: string): Promise<{ name: string; kind: string; target: string; text: string }[]> {
  const tar = await TarReader.open(file);
  const found = [];
  try {
    for await (const { name, kind, target, content } of tar.entries()) {
      const parts: Buffer[] = [];
      for await (const part of content) parts.push(part);
      found.push({ name, kind, target, text: Buffer.concat(parts).toString() });
    }
  } finally {
    await tar.close();
  }
  return found;
}

const LONG = `${"d".repeat(150)}/ü${"f".repeat(150)}`;

test("what was written is read again, long names too, and by the system's tar", async () => {
  const file = await write(async (tar) => {
    await tar.addDirectory("a", 0o755, 1);
    await tar.addBytes("a/empty", Buffer.alloc(0), 1);
    await tar.addBytes("a/block", Buffer.alloc(512, "x"), 1);
    await tar.addBytes(LONG, Buffer.from("long"), 1);
    await tar.addLink("a/link", LONG, 1);
  });
  expect(await read(file)).toEqual([
    { name: "a/", kind: "directory", target: "", text: "" },
    { name: "a/empty", kind: "file", target: "", text: "" },
    { name: "a/block", kind: "file", target: "", text: "x".repeat(512) },
    { name: LONG, kind: "file", target: "", text: "long" },
    { name: "a/link", kind: "link", target: LONG, text: "" },
  ]);
  expect((statSync(file).mode & 0o777).toString(8)).toBe("600");
  const listed = spawnSync("tar", ["--quoting-style=literal", "-xOf", file, LONG], { encoding: "utf8" });
  expect([listed.status, listed.stdout]).toEqual([0, "long"]);
});

test("a file that grows or shrinks while it is read keeps the archive whole, and is named", async () => {
  const source = path.join(dir, "source");
  const results: boolean[] = [];
  const file = await write(async (tar) => {
    for (const text of ["same", "grown and grown", ""]) {
      writeFileSync(source, "same");
      const handle = await open(source);
      const stat = handle.stat.bind(handle);
      // Between the look at its size and the first read.
      handle.stat = (async () => {
        const found = await stat();
        writeFileSync(source, text);
        return found;
      }) as typeof handle.stat;
      results.push(await tar.addFile("source", handle));
      await handle.close();
    }
  });
  expect(results).toEqual([true, false, false]);
  expect((await read(file)).map(({ text }) => text)).toEqual(["same", "grow", "\0\0\0\0"]);
});

test("a changed byte anywhere is noticed", async () => {
  const file = await write((tar) => tar.addBytes("name", Buffer.from("content"), 1));
  const bytes = readFileSync(file);
  const sealEnd = bytes.length - 1024 - 512 + 64;
  for (const place of [0, 100, 156, 257, 512, 520, 700, 1024, 1536, sealEnd - 1]) {
    const changed = Buffer.from(bytes);
    changed[place]! ^= 1;
    writeFileSync(file, changed);
    await expect(read(file)).rejects.toThrow("not a readable archive");
  }
});

test("a file may have the seal's name, and nothing comes behind the seal", async () => {
  const text = "0".repeat(64);
  const file = await write(async (tar) => {
    await tar.addBytes("sha256", Buffer.from(text), 1);
    await tar.addBytes("then", Buffer.from("more"), 1);
  });
  expect((await read(file)).map((each) => [each.name, each.text])).toEqual([
    ["sha256", text],
    ["then", "more"],
  ]);
  const bytes = readFileSync(file);
  const ends = bytes.subarray(0, -1024);
  writeFileSync(file, Buffer.concat([ends, bytes]));
  await expect(read(file)).rejects.toThrow("something stands behind its end");
});

test("an archive of another program has no seal and is refused", async () => {
  const file = path.join(dir, "other.tar");
  spawnSync("tar", ["-cf", file, "-C", dir, "1.tar"]);
  await expect(read(file)).rejects.toThrow("its end is missing");
});

test("kinds that are no file, directory or link are refused", async () => {
  const file = await write((tar) => tar.addBytes("x", Buffer.alloc(0), 1));
  const block = readFileSync(file).subarray(0, 512);
  for (const type of ["1", "3", "4", "6", "L"]) {
    block.write(type, 156, "latin1");
    block.write("        ", 148, "latin1");
    const sum = block.reduce((total, byte) => total + byte, 0);
    block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    expect(() => readHeader(block)).toThrow("a kind that is not allowed");
  }
});

test.each(["5", "99 path=x\n", "-1 path=x\n", "abc path=x\n", "8 pathx\n", "6 a=b\n".repeat(17)])(
  "the extended header %j is refused",
  (text) => {
    expect(() => readPax(Buffer.from(text))).toThrow("a broken extended header");
  },
);
