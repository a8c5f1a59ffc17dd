import { execFileSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { BadTar, packHeader, TarWriter } from "../../../../src/kit/tar/archive.ts";
import { packFolder, Unpackable } from "../../../../src/kit/tar/pack-folder.ts";
import { NoRoom, unpackFolder } from "../../../../src/kit/tar/unpack-folder.ts";
import { verifies } from "../../../verifies.ts";

const LIMITS = { maxEntries: 100, maxBytes: 10_000_000 };
const MODIFIED_AT = 1_600_000_000;

function scratch(): string {
  const made = mkdtempSync(path.join(tmpdir(), "millrace-packed-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** Packs a folder, and gives a function that unpacks it into a new one. */
async function packedIn(root: string, from: string, leftOut?: (name: string) => boolean): Promise<string> {
  const file = path.join(root, "packed");
  writeFileSync(file, await buffer(packFolder(from, leftOut ? { leftOut } : {})));
  return file;
}

function namesIn(folder: string): Set<string> {
  return new Set(readdirSync(folder, { recursive: true, encoding: "utf8" }));
}

function emptyIn(root: string): string {
  const folder = path.join(root, "into");
  mkdirSync(folder);
  return folder;
}

/** An archive of anything, packed as ours are. */
async function archive(root: string, fill: (tar: TarWriter) => Promise<unknown>): Promise<string> {
  const tarFile = path.join(root, "plain.tar");
  const tar = await TarWriter.create(tarFile);
  await fill(tar);
  await tar.finish();
  const file = path.join(root, "packed");
  writeFileSync(file, zstdCompressSync(readFileSync(tarFile)));
  return file;
}

describe("a packed folder", () => {
  test("comes out as it went in, the same bytes each time", async () => {
    const root = scratch();
    const from = path.join(root, "from");
    mkdirSync(path.join(from, "a", "empty"), { recursive: true });
    writeFileSync(path.join(from, "a", "run.sh"), "#!/bin/sh\n");
    writeFileSync(path.join(from, "large"), Buffer.alloc(3_000_000, "abc"));
    writeFileSync(path.join(from, "größe"), "");
    chmodSync(path.join(from, "a", "run.sh"), 0o750);
    chmodSync(path.join(from, "a", "empty"), 0o555);
    symlinkSync("run.sh", path.join(from, "a", "link"));
    symlinkSync("../large", path.join(from, "a", "up"));
    utimesSync(path.join(from, "a", "run.sh"), MODIFIED_AT, MODIFIED_AT);
    const file = await packedIn(root, from);
    expect(await buffer(packFolder(from))).toEqual(readFileSync(file));
    const into = emptyIn(root);
    expect(await unpackFolder(file, into, LIMITS)).toBeNull();
    expect(namesIn(into)).toEqual(namesIn(from));
    const script = statSync(path.join(into, "a", "run.sh"));
    expect([script.mode & 0o777, script.mtimeMs]).toEqual([0o750, MODIFIED_AT * 1000]);
    expect(statSync(path.join(into, "a", "empty")).mode & 0o777).toBe(0o555);
    expect(readlinkSync(path.join(into, "a", "up"))).toBe("../large");
    expect(readFileSync(path.join(into, "large")).equals(readFileSync(path.join(from, "large")))).toBe(true);
    chmodSync(path.join(from, "a", "empty"), 0o755);
    chmodSync(path.join(into, "a", "empty"), 0o755);
  });

  test("leaves out and gives what it is told to", async () => {
    const root = scratch();
    const from = path.join(root, "from");
    mkdirSync(path.join(from, "bin"), { recursive: true });
    symlinkSync("/usr/bin/python3", path.join(from, "bin", "python"));
    writeFileSync(path.join(from, "ready"), "/where/it/was");
    const file = await packedIn(root, from, (name) => name === "bin/python");
    const into = emptyIn(root);
    expect((await unpackFolder(file, into, LIMITS, "ready"))?.toString()).toBe("/where/it/was");
    expect(readdirSync(into, { recursive: true })).toEqual(["bin"]);
  });

  test("is none where a link leads out of it, or a name is no text", async () => {
    const root = scratch();
    for (const [name, target] of [
      ["absolute", "/etc/passwd"],
      ["above", "../x"],
      ["through", "a/../../x"],
    ] as const) {
      const from = path.join(root, name);
      mkdirSync(from);
      symlinkSync(target, path.join(from, "link"));
      await expect(buffer(packFolder(from))).rejects.toThrow(Unpackable);
    }
    const from = path.join(root, "bytes");
    mkdirSync(from);
    writeFileSync(Buffer.concat([Buffer.from(`${from}/`), Buffer.from([0xff, 0xfe])]), "");
    await expect(buffer(packFolder(from))).rejects.toThrow("not UTF-8");
  });

  verifies("builds.unpackable", "is none where there is more than files, folders and links", async () => {
    const root = scratch();
    const refusalOf = async (name: string, fill: (folder: string) => unknown): Promise<unknown> => {
      const from = path.join(root, name);
      mkdirSync(path.join(from, "deep"), { recursive: true });
      await fill(path.join(from, "deep"));
      return await buffer(packFolder(from)).catch((error: unknown) => [
        error instanceof Unpackable,
        String(error),
      ]);
    };
    const pipe = await refusalOf("pipe", (folder) => execFileSync("mkfifo", [path.join(folder, "left")]));
    expect(pipe).toEqual([true, 'Unpackable: "deep/left" is a named pipe']);
    const socket = await refusalOf("socket", async (folder) => {
      const server = createServer().listen(path.join(folder, "left"));
      onTestFinished(() => void server.close());
      await once(server, "listening");
    });
    expect(socket).toEqual([true, 'Unpackable: "deep/left" is a socket']);
    const link = await refusalOf("link", (folder) =>
      symlinkSync(Buffer.from([0x74, 0xff]), path.join(folder, "left")),
    );
    expect(link).toEqual([true, 'Unpackable: "deep/left" is a link to a name that is not UTF-8']);
  });

  verifies(
    "blobs.environment.size",
    "is none where it seems to hold too much, whatever its disk says",
    async () => {
      const from = scratch();
      writeFileSync(path.join(from, "small"), "1234");
      expect((await buffer(packFolder(from, { maxBytes: 4 }))).length).toBeGreaterThan(0);
      truncateSync(path.join(from, "small"), 100 * 1024 ** 3);
      const packing = buffer(packFolder(from, { maxBytes: 32 * 1024 ** 3 }));
      await expect(packing).rejects.toThrow('"small" makes the folder too large');
    },
  );
});

verifies("blobs.fetch.room", "what the disk has no room for is not written", async () => {
  const root = scratch();
  const file = await archive(root, async (tar) => await tar.addBytes("x", Buffer.alloc(300_000, "y"), 0));
  const into = emptyIn(root);
  await expect(unpackFolder(file, into, { ...LIMITS, roomBytes: 299_999 })).rejects.toThrow(NoRoom);
  expect(readdirSync(into)).toEqual([]);
  await unpackFolder(file, into, { ...LIMITS, roomBytes: 300_100 });
  expect(readdirSync(into)).toEqual(["x"]);
});

/** Each seems to stay inside, by its name. The third would be beside the folder. */
async function linkBelowLink(tar: TarWriter): Promise<void> {
  for (const name of ["a", "a/b"]) await tar.addDirectory(name, 0o755, 0);
  await tar.addLink("a/b/top", "../..", 0);
  await tar.addLink("a/b/top/above", "..", 0);
  await tar.addLink("a/b/top/above/beside", "into", 0);
}

const HOSTILE: [string, (tar: TarWriter) => Promise<unknown>][] = [
  ["a name above", async (tar) => await tar.addBytes("../x", Buffer.from("x"), 0)],
  ["a whole path", async (tar) => await tar.addBytes("/tmp/x", Buffer.from("x"), 0)],
  ["a link to a whole path", async (tar) => await tar.addLink("x", "/etc", 0)],
  [
    "a link above",
    async (tar) => {
      await tar.addDirectory("a", 0o755, 0);
      await tar.addLink("a/x", "../../x", 0);
    },
  ],
  ["a link that leads above by way of another", linkBelowLink],
  [
    "a file below a link",
    async (tar) => {
      await tar.addLink("a", "b", 0);
      await tar.addBytes("a/x", Buffer.from("x"), 0);
    },
  ],
  [
    "a name twice",
    async (tar) => {
      await tar.addBytes("x", Buffer.from("x"), 0);
      await tar.addBytes("x", Buffer.from("y"), 0);
    },
  ],
  [
    "too many",
    async (tar) => {
      for (let count = 0; count <= LIMITS.maxEntries; count++) await tar.addDirectory(`f${count}`, 0o755, 0);
    },
  ],
  ["too large", async (tar) => await tar.addBytes("x", Buffer.alloc(LIMITS.maxBytes + 1), 0)],
];

verifies(
  "blobs.fetch.hostile",
  "an archive that leads out of its folder, or holds too much, is refused",
  async () => {
    for (const [name, fill] of HOSTILE) {
      const root = scratch();
      const file = await archive(root, fill);
      const into = path.join(root, "deep", "into");
      mkdirSync(into, { recursive: true });
      const refusal = await unpackFolder(file, into, LIMITS).catch((error: unknown) => error);
      expect([name, refusal]).toEqual([name, expect.any(BadTar)]);
      expect(readdirSync(path.join(root, "deep"))).toEqual(["into"]);
    }
  },
);

verifies("blobs.fetch.hostile", "one that was cut off, changed, or is none is refused", async () => {
  const root = scratch();
  const file = await archive(root, async (tar) => await tar.addBytes("x", Buffer.alloc(300_000, "y"), 0));
  const whole = readFileSync(file);
  for (const [number, bytes] of [
    whole.subarray(0, -10),
    Buffer.from("no archive"),
    Buffer.alloc(0),
  ].entries()) {
    writeFileSync(file, bytes);
    const into = path.join(root, `into-${number}`);
    mkdirSync(into);
    await expect(unpackFolder(file, into, LIMITS)).rejects.toThrow(BadTar);
  }
});

test("heads that hold far more than names are refused: compressed, they cost next to nothing", async () => {
  const root = scratch();
  const head = { mode: 0, modifiedAt: 0, target: "" };
  const padding = Buffer.from(`65000 comment=${"x".repeat(64_985)}\n`);
  const pax = packHeader({ ...head, name: "x", kind: "pax", sizeBytes: padding.length });
  const entries = Array.from({ length: 90 }, (_, index) => {
    const file = packHeader({ ...head, name: `f${index}`, kind: "file", sizeBytes: 0 });
    return Buffer.concat([pax, padding, Buffer.alloc(24), file]);
  });
  const packed = path.join(root, "packed");
  writeFileSync(packed, gzipSync(Buffer.concat(entries)));
  const unpacking = unpackFolder(packed, emptyIn(root), { maxEntries: 100, maxBytes: 1_000 });
  await expect(unpacking).rejects.toThrow("it holds too much");
});

/** The bytes of an archive, sealed. */
async function tarOf(root: string, fill: (tar: TarWriter) => Promise<unknown>): Promise<Buffer> {
  const file = path.join(root, "of-an-agent.tar");
  rmSync(file, { force: true });
  const tar = await TarWriter.create(file);
  await fill(tar);
  await tar.finish();
  return readFileSync(file);
}

verifies(
  "pod-builds.judged",
  "what an agent has packed is unpacked, and nothing in it is trusted",
  async () => {
    const root = scratch();
    const limits = { maxEntries: 10, maxBytes: 1_000 };
    let count = 0;
    const unpacked = async (bytes: Buffer, given: string | null = null): Promise<Buffer | null> => {
      const packed = path.join(root, "packed");
      writeFileSync(packed, gzipSync(bytes));
      count += 1;
      const into = path.join(root, "deep", String(count));
      mkdirSync(into, { recursive: true });
      return await unpackFolder(packed, into, limits, given);
    };
    const good = await tarOf(root, async (tar) => {
      await tar.addDirectory("bin", 0o755, 1);
      await tar.addLink("bin/python3", "python", 1);
      await tar.addBytes("ready", Buffer.from("/built/environment"), 1);
      await tar.addBytes("bin/tool", Buffer.from("text"), 1);
    });
    expect((await unpacked(good, "ready"))?.toString()).toBe("/built/environment");
    const into = path.join(root, "deep", "1");
    expect(readdirSync(into)).toEqual(["bin"]);
    expect(readdirSync(path.join(into, "bin")).toSorted()).toEqual(["python3", "tool"]);
    expect(readlinkSync(path.join(into, "bin", "python3"))).toBe("python");
    expect(readFileSync(path.join(into, "bin", "tool"), "utf8")).toBe("text");

    const file = (name: string, size = 1) => tarOf(root, (tar) => tar.addBytes(name, Buffer.alloc(size), 0));
    for (const name of ["../x", "/x", "a/../../x", "a//b", "x".repeat(3_001)])
      await expect(unpacked(await file(name))).rejects.toThrow("invalid name");
    const twice = await tarOf(root, async (tar) => {
      await tar.addBytes("a", Buffer.alloc(1), 0);
      await tar.addLink("a", "b", 0);
    });
    await expect(unpacked(twice)).rejects.toThrow("invalid name");
    for (const target of ["/etc/passwd", "../..", "a/../../b", "", "x".repeat(3_001), "/usr/bin/python3"]) {
      const link = await tarOf(root, async (tar) => {
        await tar.addDirectory("a", 0o755, 0);
        await tar.addLink("a/python", target, 0);
      });
      await expect(unpacked(link)).rejects.toThrow("leads outside");
    }
    const below = await tarOf(root, async (tar) => {
      await tar.addLink("a", ".", 0);
      await tar.addLink("a/link", "../b", 0);
    });
    await expect(unpacked(below)).rejects.toThrow("invalid name");
    for (const kind of ["directory", "link"] as const) {
      const marker = await tarOf(root, async (tar) =>
        kind === "link" ? await tar.addLink("ready", "x", 0) : await tar.addDirectory("ready", 0o755, 0),
      );
      await expect(unpacked(marker, "ready")).rejects.toThrow("it holds too much");
    }
    await expect(unpacked(await file("large", 1_001))).rejects.toThrow("it holds too much");
    const many = await tarOf(root, async (tar) => {
      for (let index = 0; index < 11; index += 1) await tar.addBytes(`f${index}`, Buffer.alloc(0), 0);
    });
    await expect(unpacked(many)).rejects.toThrow("it holds too much");
    const whole = await file("a", 900);
    await expect(unpacked(whole.subarray(0, 1_000))).rejects.toThrow("it ends too early");
    const changed = Buffer.from(whole);
    changed[600] = 7;
    await expect(unpacked(changed)).rejects.toThrow("it was changed");
    const device = packHeader({ name: "x", kind: "file", mode: 0, sizeBytes: 0, modifiedAt: 0, target: "" });
    device.write("3", 156, "latin1");
    await expect(unpacked(Buffer.concat([device, whole]))).rejects.toThrow("checksum");
    const huge = packHeader({ name: "x", kind: "file", mode: 0, sizeBytes: 999, modifiedAt: 0, target: "" });
    await expect(unpacked(huge)).rejects.toThrow("it ends too early");
    await expect(unpacked(Buffer.concat([whole, Buffer.alloc(5_000_000)]))).rejects.toThrow("behind its end");
    await expect(unpacked(Buffer.concat([whole, Buffer.from("x")]))).rejects.toThrow("behind its end");
    await expect(unpacked(Buffer.alloc(2_000))).rejects.toThrow("its end is missing");
    expect(readdirSync(root).toSorted()).toEqual(["deep", "of-an-agent.tar", "packed"]);
    for (const name of readdirSync(path.join(root, "deep"))) expect(name).toMatch(/^\d+$/);
  },
);
