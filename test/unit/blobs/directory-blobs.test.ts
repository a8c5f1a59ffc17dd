import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { mkdtempSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { BlobDamaged, BlobMissing } from "../../../src/blobs/blob-store.ts";
import { DirectoryBlobs } from "../../../src/blobs/directory-blobs.ts";
import { bytesOf, forgetsUnfinished, hashOf, keepsBlobs } from "../../support/blobs/blob-contract.ts";
import { verifies } from "../../verifies.ts";

const LARGE_BYTES = 3 * 1024 * 1024;
const TEXT = Buffer.from("some text");
/** Long ago, and after that. */
const OLD = new Date(Date.UTC(2020, 0, 1));
const BEFORE = Date.UTC(2021, 0, 1);

function folder(): string {
  const made = mkdtempSync(path.join(tmpdir(), "millrace-blobs-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return path.join(made, "blobs");
}

function fileOf(root: string, hash: string): string {
  return path.join(root, "sha256", hash.slice(0, 2), hash);
}

verifies(["blobs.hash", "blobs.range", "blobs.at-once"], "a directory keeps blobs", async () => {
  const root = folder();
  await keepsBlobs(await DirectoryBlobs.open(root), LARGE_BYTES);
  expect(readdirSync(path.join(root, "incoming"))).toEqual([]);
});

verifies("blobs.whole", "what breaks off leaves no blob and no file", async () => {
  const root = folder();
  await forgetsUnfinished(await DirectoryBlobs.open(root), LARGE_BYTES);
  expect(readdirSync(path.join(root, "incoming"))).toEqual([]);
});

verifies(
  "blobs.plain",
  "a pipe or a link in the place of a blob is damage, and nobody waits for it",
  async () => {
    const root = folder();
    const blobs = await DirectoryBlobs.open(root);
    const { hash } = await blobs.put([TEXT]);
    const file = fileOf(root, hash);
    rmSync(file);
    execFileSync("mkfifo", [file]);
    await expect(bytesOf(blobs.open(hash))).rejects.toThrow(BlobDamaged);
    rmSync(file);
    symlinkSync("/dev/zero", file);
    await expect(bytesOf(blobs.open(hash))).rejects.toThrow(BlobDamaged);
  },
);

verifies("blobs.hash", "bytes that have changed are told at the end, and a put mends them", async () => {
  const root = folder();
  const blobs = await DirectoryBlobs.open(root);
  const { hash } = await blobs.put([TEXT]);
  writeFileSync(fileOf(root, hash), "some tex!");
  await expect(bytesOf(blobs.open(hash))).rejects.toThrow(BlobDamaged);
  await blobs.put([TEXT]);
  expect(await bytesOf(blobs.open(hash))).toEqual(TEXT);
});

verifies("blobs.length", "one that is longer or shorter than it is known to be is not read", async () => {
  const root = folder();
  const blobs = await DirectoryBlobs.open(root);
  const { hash, bytes } = await blobs.put([TEXT]);
  expect(await bytesOf(blobs.open(hash, { bytes }))).toEqual(TEXT);
  // It takes up nothing, and would fill the disk of who fetched it.
  truncateSync(fileOf(root, hash), 200 * 1024 ** 3);
  const pieces = blobs.open(hash, { bytes });
  await expect(pieces.next()).rejects.toThrow(BlobDamaged);
  truncateSync(fileOf(root, hash), bytes - 1);
  await expect(bytesOf(blobs.open(hash, { bytes }))).rejects.toThrow(BlobDamaged);
});

verifies("payloads.blob.away", "a place that is not there has lost no blob", async () => {
  const root = path.join(folder(), "mounted");
  const blobs = await DirectoryBlobs.open(root);
  const { hash } = await blobs.put([TEXT]);
  rmSync(fileOf(root, hash));
  await expect(bytesOf(blobs.open(hash))).rejects.toThrow(BlobMissing);
  rmSync(root, { recursive: true });
  await expect(bytesOf(blobs.open(hash))).rejects.toThrow(`${root} is not there`);
});

verifies("blobs.private", "nobody else can look into the directory or into a blob", async () => {
  const root = folder();
  const { hash } = await (await DirectoryBlobs.open(root)).put([TEXT]);
  for (const place of [root, path.join(root, "sha256"), path.dirname(fileOf(root, hash))])
    expect(statSync(place).mode & 0o777).toBe(0o700);
  expect(statSync(fileOf(root, hash)).mode & 0o777).toBe(0o600);
});

verifies("blobs.young", "one that is put again is as young as a new one", async () => {
  const root = folder();
  const blobs = await DirectoryBlobs.open(root);
  const { hash } = await blobs.put([TEXT]);
  utimesSync(fileOf(root, hash), OLD, OLD);
  await blobs.put([TEXT]);
  expect(await blobs.remove(hash, BEFORE)).toBe(false);
  utimesSync(fileOf(root, hash), OLD, OLD);
  // Whoever comes in between finds either that it is young again, or that it is not there and makes another.
  const [isGone] = await Promise.all([blobs.remove(hash, BEFORE), blobs.put([TEXT])]);
  expect([isGone, await blobs.has(hash)]).toEqual([isGone, true]);
});

test("what an upload left is cleared away, and nothing that is under way", async () => {
  const root = folder();
  const blobs = await DirectoryBlobs.open(root);
  const left = path.join(root, "incoming", "left");
  const fresh = path.join(root, "incoming", "fresh");
  for (const file of [left, fresh]) writeFileSync(file, "x");
  utimesSync(left, OLD, OLD);
  await blobs.tidy(BEFORE);
  expect([existsSync(left), existsSync(fresh)]).toEqual([false, true]);
  expect(await blobs.has(hashOf(TEXT))).toBe(false);
});
