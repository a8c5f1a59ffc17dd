import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import {
  link,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  rm,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { execFileSync, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { Volumes } from "../../../src/apps/volumes/volumes.ts";
import { StorageFolders } from "../../../src/host/storage/folders.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Seal } from "../../../src/kit/seal.ts";
import { altered } from "../../support/altered.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const PROJECT = "p-one";
const DAY_MS = 86_400_000;

/** Volumes in a directory of the test's own, with the folder that apps write into. */
async function open() {
  const dataDir = await mkdtemp(path.join(tmpdir(), "millrace-volumes-"));
  const clock = new HandClock(Date.now());
  const seal = new Seal(randomBytes(32));
  let isDiskLow = false;
  const parts = {
    dataDir,
    storage: new StorageFolders(dataDir),
    helper: null,
    seal,
    clock,
    log: createLog("silent"),
    shortage: () => (isDiskLow ? "The disk is full." : null),
  };
  const volumes = new Volumes(parts);
  onTestFinished(async () => {
    await volumes.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  const folder = path.join(dataDir, "storage", PROJECT);
  await mkdir(folder, { recursive: true });
  return {
    volumes,
    again: () => new Volumes(parts),
    clock,
    dataDir,
    folder,
    staging: path.join(dataDir, "storage", ".staging"),
    fillDisk: () => (isDiskLow = true),
  };
}

async function upload(volumes: Volumes, filePath: string, ...pieces: string[]): Promise<void> {
  const uploadId = await volumes.begin(PROJECT, filePath, pieces.length);
  const tags = await Promise.all(
    pieces.map(async (piece, place) => {
      const etag = await volumes.put(uploadId, place + 1, Readable.from([Buffer.from(piece)]));
      return { partNumber: place + 1, etag };
    }),
  );
  await volumes.complete(PROJECT, { uploadId, filePath, tags: tags.toReversed() });
}

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  return await work.then(
    () => null,
    (error: { code?: string }) => error.code ?? error,
  );
}

test("a link may lead around inside the volume", async () => {
  const { volumes, folder } = await open();
  await mkdir(path.join(folder, "blobs"));
  await writeFile(path.join(folder, "blobs", "abc"), "weights");
  await symlink("blobs/abc", path.join(folder, "model.bin"));
  await symlink("blobs", path.join(folder, "same"));
  expect(
    (await volumes.list(PROJECT, "/")).map(({ name, isFolder, sizeBytes }) => [name, isFolder, sizeBytes]),
  ).toEqual([
    ["blobs", true, 0],
    ["model.bin", false, 7],
    ["same", true, 0],
  ]);
  const opened = await volumes.open(await volumes.offer(PROJECT, "same/abc"));
  expect(await text(opened?.bytes({ first: 0, last: 6 }) ?? Readable.from([]))).toBe("weights");
  await upload(volumes, "same/new", "x");
  expect(await readFile(path.join(folder, "blobs", "new"), "utf8")).toBe("x");
});

test("no link leads out of it: not to read, list, write or remove", async () => {
  const { volumes, folder, dataDir } = await open();
  await writeFile(path.join(dataDir, "master.key"), "secret");
  await mkdir(path.join(dataDir, "storage", "p-other"));
  await writeFile(path.join(dataDir, "storage", "p-other", "theirs"), "theirs");
  await symlink("../../master.key", path.join(folder, "key"));
  await symlink("../p-other", path.join(folder, "other"));
  await symlink("/", path.join(folder, "root"));
  await symlink("loop", path.join(folder, "loop"));
  await symlink("nowhere", path.join(folder, "dangling"));
  expect(await volumes.list(PROJECT, "/")).toEqual([]);
  for (const dir of ["other", "root", "root/etc", "loop", "dangling"]) {
    expect([dir, await volumes.list(PROJECT, dir)]).toEqual([dir, []]);
  }
  for (const file of ["key", "other/theirs", "root/etc/passwd", "loop", "dangling", "loop/x"]) {
    expect([file, await codeOf(volumes.offer(PROJECT, file))]).toEqual([file, "not_found"]);
  }
  for (const file of ["other/mine", "root/tmp/mine", "dangling/mine", "loop/mine"]) {
    expect([file, await codeOf(upload(volumes, file, "x"))]).toEqual([file, "not_found"]);
  }
  for (const file of ["other/theirs", "root/etc/passwd", "other/", "root/"]) {
    expect([file, (await codeOf(volumes.remove(PROJECT, file))) !== null]).toEqual([file, true]);
  }
  expect(await readFile(path.join(dataDir, "storage", "p-other", "theirs"), "utf8")).toBe("theirs");
  // What a link stands for is left alone when the link goes, by an upload in its place or by its removal.
  await upload(volumes, "key", "mine");
  expect(await readFile(path.join(dataDir, "master.key"), "utf8")).toBe("secret");
  await volumes.remove(PROJECT, "other");
  expect(existsSync(path.join(dataDir, "storage", "p-other", "theirs"))).toBe(true);
});

test("what is neither file nor folder is not listed, not read, and nobody waits for it", async () => {
  const { volumes, folder } = await open();
  execFileSync("mkfifo", [path.join(folder, "pipe")]);
  expect(await volumes.list(PROJECT, "/")).toEqual([]);
  expect(await codeOf(volumes.offer(PROJECT, "pipe"))).toBe("bad_request");
  expect(await codeOf(volumes.offer(PROJECT, "pipe/x"))).toBe("not_found");
  await volumes.remove(PROJECT, "pipe");
  expect(await readdir(folder)).toEqual([]);
});

verifies(
  "hardening.volume-open",
  "what a link leads to outside is not opened, for a moment neither",
  async () => {
    const { volumes, folder, dataDir } = await open();
    const pipe = path.join(dataDir, "pipe");
    execFileSync("mkfifo", [pipe]);
    await symlink(pipe, path.join(folder, "link"));
    await symlink(dataDir, path.join(folder, "above"));
    // Whoever opens a pipe wakes the one who waits at its other end.
    const writer = spawn("python3", ["-c", `print("ready", flush=True)\nopen('${pipe}', "w")`]);
    onTestFinished(() => void writer.kill("SIGKILL"));
    await new Promise((resolve) => writer.stdout.once("data", resolve));
    await until("it waits", () => stateOf(writer.pid ?? 0) === "S");
    expect(await volumes.list(PROJECT, "/")).toEqual([]);
    for (const file of ["link", "above/pipe"]) {
      expect(await codeOf(volumes.offer(PROJECT, file))).toBe("not_found");
      expect(await volumes.list(PROJECT, file)).toEqual([]);
      expect(await codeOf(upload(volumes, `${file}/x`, "x"))).not.toBeNull();
    }
    expect(stateOf(writer.pid ?? 0)).toBe("S");
    expect([writer.exitCode, writer.signalCode]).toEqual([null, null]);
  },
);

verifies(
  "volumes.rm",
  "a folder goes at once with all that is in it, and nothing that its links lead to",
  async () => {
    const { volumes, folder, dataDir, staging } = await open();
    const outside = path.join(dataDir, "outside");
    await mkdir(outside);
    await writeFile(path.join(outside, "kept"), "kept");
    const deep = path.join(folder, "gone", ...Array.from({ length: 200 }, () => "d"));
    await mkdir(deep, { recursive: true });
    await writeFile(path.join(deep, "file"), "x");
    await symlink(outside, path.join(folder, "gone", "link"));
    await link(path.join(outside, "kept"), path.join(deep, "hard"));
    await writeFile(Buffer.concat([Buffer.from(`${folder}/gone/`), Buffer.from([0xff, 0xfe])]), "no UTF-8");
    expect(await codeOf(volumes.remove(PROJECT, "gone"))).toBe("bad_request");
    await volumes.remove(PROJECT, "gone/");
    expect(await readdir(folder)).toEqual([]);
    await until(
      "nothing is left of it",
      async () => (await readdir(path.join(staging, "trash"))).length === 0,
    );
    expect(await readFile(path.join(outside, "kept"), "utf8")).toBe("kept");
    for (const file of ["gone/", "gone", "/", "./"]) {
      expect([file, (await codeOf(volumes.remove(PROJECT, file))) !== null]).toEqual([file, true]);
    }
  },
);

test("an upload survives a restart, takes any order and any repetition, and replaces in one step", async () => {
  const { volumes, again, folder, staging } = await open();
  await upload(volumes, "a/b/c.txt", "one ", "two ", "three");
  expect(await readFile(path.join(folder, "a/b/c.txt"), "utf8")).toBe("one two three");
  const filePath = "/a//b/c.txt";
  const uploadId = await volumes.begin(PROJECT, filePath, 2);
  const put = async (book: Volumes, part: number, text: string): Promise<string> =>
    await book.put(uploadId, part, Readable.from([Buffer.from(text)]));
  const second = await put(volumes, 2, "second");
  const wrong = await put(volumes, 1, "wrong");
  const later = again();
  const first = await put(later, 1, "first ");
  expect(await put(later, 1, "first ")).toBe(first);
  const tags = (one: string, two = second) => [
    { partNumber: 1, etag: one },
    { partNumber: 2, etag: two },
  ];
  const complete = async (given: { partNumber: number; etag: string }[], at = filePath): Promise<unknown> =>
    await codeOf(later.complete(PROJECT, { uploadId, filePath: at, tags: given }));
  expect(await complete(tags(first, wrong))).toBe("bad_request");
  expect(await complete(tags(first).slice(0, 1))).toBe("bad_request");
  expect(await complete([...tags(first), ...tags(first)])).toBe("bad_request");
  expect(await complete(tags('"../../../master.key"'))).toBe("bad_request");
  expect(await complete(tags(first), "elsewhere")).toBe("not_found");
  expect(await codeOf(later.complete("p-two", { uploadId, filePath, tags: tags(first) }))).toBe("not_found");
  expect(await readFile(path.join(folder, "a/b/c.txt"), "utf8")).toBe("one two three");
  expect(await complete(tags(first.replaceAll('"', "")))).toBeNull();
  expect(await readFile(path.join(folder, "a/b/c.txt"), "utf8")).toBe("first second");
  expect(await complete(tags(first))).toBe("not_found");
  expect(await codeOf(put(later, 1, "late"))).toBe("not_found");
  expect(await codeOf(put(later, 3, "none"))).toBe("not_found");
  expect(await readdir(path.join(staging, "uploads"))).toEqual([]);
});

test("a file does not take the place of a folder, nor a folder that of a file", async () => {
  const { volumes, folder } = await open();
  await mkdir(path.join(folder, "folder"));
  await writeFile(path.join(folder, "file"), "x");
  expect(await codeOf(upload(volumes, "folder", "x"))).toBe("bad_request");
  expect(await codeOf(upload(volumes, "file/below", "x"))).toBe("not_found");
  expect(await codeOf(volumes.remove(PROJECT, "file/"))).toBe("bad_request");
  expect(await volumes.list(PROJECT, "file")).toEqual([]);
});

test("an upload that is broken off leaves nothing, at once of its part and after a day of all", async () => {
  const { volumes, clock, staging } = await open();
  const uploadId = await volumes.begin(PROJECT, "file", 2);
  await volumes.put(uploadId, 1, Readable.from([Buffer.from("x")]));
  const broken = Readable.from(
    (async function* () {
      yield Buffer.from("half");
      throw new Error("the sender is gone");
    })(),
  );
  await expect(volumes.put(uploadId, 2, broken)).rejects.toThrow("the sender is gone");
  const [id = ""] = await readdir(path.join(staging, "uploads"));
  expect(await readdir(path.join(staging, "uploads", id))).toHaveLength(1);
  clock.nowMs += DAY_MS - 60_000;
  await volumes.sweep();
  expect(await readdir(path.join(staging, "uploads"))).toEqual([id]);
  clock.nowMs += 120_000;
  await volumes.sweep();
  expect(await readdir(path.join(staging, "uploads"))).toEqual([]);
  expect(await readdir(path.join(staging, "trash"))).toEqual([]);
});

test("rights end: an upload's after a day, a download's after an hour, and neither is good for the other", async () => {
  const { volumes, clock, folder } = await open();
  await writeFile(path.join(folder, "file"), "x");
  const uploadId = await volumes.begin(PROJECT, "new", 1);
  const grant = await volumes.offer(PROJECT, "file");
  expect(await volumes.open(uploadId)).toBeNull();
  expect(await codeOf(volumes.put(grant, 1, Readable.from([])))).toBe("not_found");
  for (const forged of ["", "x", altered(grant)]) expect(await volumes.open(forged)).toBeNull();
  clock.nowMs += 3_600_000;
  expect(await volumes.open(grant)).toBeNull();
  clock.nowMs += DAY_MS;
  expect(await codeOf(volumes.put(uploadId, 1, Readable.from([])))).toBe("not_found");
});

test("a disk that is to take no more takes no parts", async () => {
  const { volumes, fillDisk, staging } = await open();
  const uploadId = await volumes.begin(PROJECT, "file", 1);
  fillDisk();
  expect(await codeOf(volumes.put(uploadId, 1, Readable.from([Buffer.from("x")])))).toBe(
    "storage_unavailable",
  );
  const [id = ""] = await readdir(path.join(staging, "uploads"));
  expect(await readdir(path.join(staging, "uploads", id))).toEqual([]);
});

test("an empty file needs no parts", async () => {
  const { volumes, folder } = await open();
  const uploadId = await volumes.begin(PROJECT, "a/empty", 0);
  expect(await readFile(path.join(folder, "a/empty"), "utf8")).toBe("");
  await volumes.complete(PROJECT, { uploadId, filePath: "a/empty", tags: [] });
  await truncate(path.join(folder, "a/empty"), 5);
  await utimes(path.join(folder, "a/empty"), 1, 1);
  expect(await volumes.list(PROJECT, "a")).toEqual([
    { name: "empty", isFolder: false, sizeBytes: 5, modifiedAt: 1000 },
  ]);
});

/** A letter for what a process does: S when it waits for something. */
function stateOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.charAt(stat.lastIndexOf(")") + 2);
}
