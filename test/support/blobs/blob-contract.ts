import { createHash, randomBytes } from "node:crypto";
import { expect } from "vitest";
import { BlobMissing, type BlobStore, type StoredBlob } from "../../../src/blobs/blob-store.ts";

/** The SHA-256 of bytes. */
export function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** All that a blob gives. */
export async function bytesOf(pieces: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

/** Every blob of a store. */
export async function all(blobs: AsyncIterable<StoredBlob>): Promise<StoredBlob[]> {
  const found: StoredBlob[] = [];
  for await (const blob of blobs) found.push(blob);
  return found;
}

/** Bytes in pieces, as a stream gives them. */
export async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield await Promise.resolve(bytes.subarray(at, at + size));
}

/** What every store promises, whatever it keeps blobs in; `largeBytes` is more than it takes in one go. */
export async function keepsBlobs(blobs: BlobStore, largeBytes: number): Promise<void> {
  const small = Buffer.from("a few bytes");
  const large = randomBytes(largeBytes);
  const nothing = Buffer.alloc(0);
  for (const bytes of [small, large, nothing]) {
    const hash = hashOf(bytes);
    expect(await blobs.has(hash)).toBe(false);
    await expect(bytesOf(blobs.open(hash))).rejects.toThrow(BlobMissing);
    expect(await blobs.put(inPieces(bytes, 65_536))).toMatchObject({ hash, bytes: bytes.length });
    expect(await blobs.has(hash)).toBe(true);
    expect((await bytesOf(blobs.open(hash))).equals(bytes)).toBe(true);
    // Again, and by others at the same time.
    const again = await Promise.all([blobs.put([bytes]), blobs.put([bytes]), blobs.put([bytes])]);
    expect(again.map((put) => put.hash)).toEqual([hash, hash, hash]);
    expect((await bytesOf(blobs.open(hash))).equals(bytes)).toBe(true);
  }
  const range = { start: 1_000, end: 70_000 };
  expect((await bytesOf(blobs.open(hashOf(large), { range }))).equals(large.subarray(1_000, 70_000))).toBe(
    true,
  );
  expect(await bytesOf(blobs.open(hashOf(small), { range: { start: 2, end: 5 } }))).toEqual(
    small.subarray(2, 5),
  );
  expect(await bytesOf(blobs.open(hashOf(small), { range: { start: 50, end: 60 } }))).toEqual(nothing);
  expect(await bytesOf(blobs.open(hashOf(small), { range: { start: 3, end: 3 } }))).toEqual(nothing);

  const listed = await all(blobs.list());
  expect(new Map(listed.map(({ hash, bytes }) => [hash, bytes]))).toEqual(
    new Map([small, large, nothing].map((bytes) => [hashOf(bytes), bytes.length])),
  );
  const prefix = hashOf(large).slice(0, 3);
  expect((await all(blobs.list(prefix))).map(({ hash }) => hash)).toEqual([hashOf(large)]);

  const putAt = listed.find(({ hash }) => hash === hashOf(small))?.putAt ?? 0;
  expect(await blobs.remove(hashOf(small), putAt - 1)).toBe(false);
  expect(await blobs.has(hashOf(small))).toBe(true);
  expect(await blobs.remove(hashOf(small), putAt + 60_000)).toBe(true);
  expect(await blobs.has(hashOf(small))).toBe(false);
  // One that is gone is fine, for whoever comes second.
  expect(await Promise.all([1, 2, 3].map(() => blobs.remove(hashOf(large))))).toEqual([true, true, true]);
  expect(await blobs.remove(hashOf(large))).toBe(true);
  await expect(blobs.has("../../etc/passwd")).rejects.toThrow("no hash");

  expect(await blobs.readNote("nodes/a-1")).toBeNull();
  await blobs.writeNote("nodes/a-1", "first");
  await blobs.writeNote("nodes/a-1", "second");
  expect(await blobs.readNote("nodes/a-1")).toBe("second");
  await blobs.removeNote("nodes/a-1");
  await blobs.removeNote("nodes/a-1");
  expect(await blobs.readNote("nodes/a-1")).toBeNull();
  await expect(blobs.readNote("../x")).rejects.toThrow("not valid");
}

/** A put that its source or its caller ends leaves nothing. */
export async function forgetsUnfinished(blobs: BlobStore, largeBytes: number): Promise<void> {
  const bytes = randomBytes(largeBytes);
  async function* broken(): AsyncGenerator<Buffer> {
    yield* inPieces(bytes.subarray(0, -1), 65_536);
    throw new Error("the source broke off");
  }
  await expect(blobs.put(broken())).rejects.toThrow("the source broke off");
  const ending = new AbortController();
  async function* endless(): AsyncGenerator<Buffer> {
    yield* inPieces(bytes, 65_536);
    ending.abort(new Error("nobody waits"));
  }
  await expect(blobs.put(endless(), ending.signal)).rejects.toThrow("nobody waits");
  expect(await all(blobs.list())).toEqual([]);
}
