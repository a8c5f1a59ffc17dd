import { Readable } from "node:stream";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";
import { packHeader, TarWriter } from "../../../../src/kit/tar/archive.ts";
import { repack } from "../../../../src/kit/tar/pack-folder.ts";
import type { Repacking } from "../../../../src/kit/tar/pack-folder.ts";
import { unpackFolder } from "../../../../src/kit/tar/unpack-folder.ts";
import { verifies } from "../../../verifies.ts";

const LIMITS = { maxEntries: 10, maxBytes: 1_000 };

/** The bytes of an archive, sealed. */
async function archive(fill: (tar: TarWriter) => Promise<unknown>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  const write = async (bytes: Buffer): Promise<void> => void pieces.push(Buffer.from(bytes));
  const tar = new TarWriter({ write, finish: async () => {}, abandon: async () => {} });
  await fill(tar);
  await tar.finish();
  return Buffer.concat(pieces);
}

/** What it is written anew as, in pieces as small as a network makes them. */
async function again(bytes: Buffer, how: Partial<Repacking> = {}): Promise<Buffer> {
  const pieces = Array.from({ length: Math.ceil(bytes.length / 700) }, (_, index) =>
    bytes.subarray(index * 700, (index + 1) * 700),
  );
  return await buffer(repack(Readable.from(pieces), { ...LIMITS, ...how }));
}

verifies(
  "elsewhere.judged",
  "what was sent is written anew, without what is left out, and unpacks",
  async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-repack-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const bytes = await archive(async (tar) => {
      await tar.addDirectory("bin", 0o755, 1);
      await tar.addLink("bin/python", "/usr/bin/python3", 1);
      await tar.addLink("bin/python3", "python", 1);
      await tar.addBytes("ready", Buffer.from("/elsewhere"), 1);
      await tar.addBytes("bin/tool", Buffer.from("text"), 1);
    });
    const packed = path.join(folder, "packed");
    const leftOut: NonNullable<Repacking["leftOut"]> = ({ name, target }) =>
      name === "ready" || target.startsWith("/");
    writeFileSync(
      packed,
      await again(bytes, { leftOut, added: { name: "ready", text: "/built/environment" } }),
    );
    const into = path.join(folder, "into");
    mkdirSync(into);
    const given = await unpackFolder(packed, into, LIMITS, "ready");
    expect(given?.toString()).toBe("/built/environment");
    expect(readdirSync(into)).toEqual(["bin"]);
    expect(readdirSync(path.join(into, "bin")).toSorted()).toEqual(["python3", "tool"]);
    expect(readlinkSync(path.join(into, "bin", "python3"))).toBe("python");
    expect(readFileSync(path.join(into, "bin", "tool"), "utf8")).toBe("text");
  },
);

verifies("elsewhere.judged", "what leads outside, comes twice, is cut or too much is refused", async () => {
  const file = (name: string, size = 1) => archive((tar) => tar.addBytes(name, Buffer.alloc(size), 0));
  for (const name of ["../x", "/x", "a/../../x", "a//b", "x".repeat(3_001)])
    await expect(again(await file(name))).rejects.toThrow("invalid name");
  const twice = await archive(async (tar) => {
    await tar.addBytes("a", Buffer.alloc(1), 0);
    await tar.addLink("a", "b", 0);
  });
  await expect(again(twice)).rejects.toThrow("invalid name");
  for (const target of ["/etc/passwd", "../..", "a/../../b", "", "x".repeat(3_001)]) {
    const link = await archive(async (tar) => {
      await tar.addDirectory("a", 0o755, 0);
      await tar.addLink("a/link", target, 0);
    });
    await expect(again(link)).rejects.toThrow("is a link to");
  }
  const below = await archive(async (tar) => {
    await tar.addLink("a", ".", 0);
    await tar.addLink("a/link", "../b", 0);
  });
  await expect(again(below)).rejects.toThrow("invalid name");
  await expect(again(await file("large", 1_001))).rejects.toThrow("it holds too much");
  const many = await archive(async (tar) => {
    for (let index = 0; index < 11; index += 1) await tar.addBytes("left-out", Buffer.alloc(0), 0);
  });
  await expect(again(many, { leftOut: () => true })).rejects.toThrow("it holds too much");
  const whole = await file("a", 900);
  await expect(again(whole.subarray(0, 1_000))).rejects.toThrow("it ends too early");
  const changed = Buffer.from(whole);
  changed[600] = 7;
  await expect(again(changed)).rejects.toThrow("it was changed");
  const device = packHeader({ name: "x", kind: "file", mode: 0, sizeBytes: 0, modifiedAt: 0, target: "" });
  device.write("3", 156, "latin1");
  await expect(again(Buffer.concat([device, whole]))).rejects.toThrow("checksum");
  await expect(again(Buffer.concat([whole, Buffer.alloc(100_000)]))).rejects.toThrow("it holds too much");
  await expect(again(Buffer.alloc(2_000))).rejects.toThrow("its end is missing");
});
