import type { FileHandle } from "node:fs/promises";
import { pipeline as chain } from "node:stream";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { crc32, createDeflateRaw } from "node:zlib";
import { open } from "../../kit/files.ts";
import { descriptor, directoryEntry, endRecords, localHeader } from "./zip-records.ts";
import type { ZipRecord } from "./zip-records.ts";

const READ_BYTES = 64 * 1024;
const MAX_BYTES = 0xffffffff;

/** Writes a zip and ends the stream. Equal files give equal bytes, in whatever order they come. */
export async function writeZip(
  files: readonly { readonly name: string; readonly path: string }[],
  to: Writable,
): Promise<void> {
  await pipeline(zipBytes(files), to);
}

async function* zipBytes(
  files: readonly { readonly name: string; readonly path: string }[],
): AsyncGenerator<Buffer, void, void> {
  const named = files.map(({ name, path }) => ({ name: Buffer.from(name), path }));
  const records: ZipRecord[] = [];
  let at = 0;
  for (const { name, path } of named.toSorted((a, b) => a.name.compare(b.name))) {
    const start = at;
    const header = localHeader(name);
    yield header;
    at += header.length;
    const file = await open(path, "r");
    try {
      const { mode } = await file.stat();
      const packed = { crc32: 0, packedBytes: 0, bytes: 0 };
      yield* pack(file, packed);
      const record = { name, start, mode: (mode & 0o100) === 0 ? 0o644 : 0o755, ...packed };
      at += packed.packedBytes;
      if (packed.bytes > MAX_BYTES || at > MAX_BYTES) throw tooLarge();
      const behind = descriptor(record);
      yield behind;
      at += behind.length;
      records.push(record);
    } finally {
      await file.close();
    }
  }
  const directory = Buffer.concat(records.map(directoryEntry));
  if (at + directory.length > MAX_BYTES) throw tooLarge();
  yield directory;
  yield endRecords(records.length, at, directory.length);
}

type Tally = { crc32: number; packedBytes: number; bytes: number };

async function* pack(file: FileHandle, tally: Tally): AsyncGenerator<Buffer, void, void> {
  // The loop below learns of an error by itself.
  const packed = chain(contents(file, tally), createDeflateRaw(), () => undefined);
  for await (const chunk of packed as AsyncIterable<Buffer>) {
    tally.packedBytes += chunk.length;
    yield chunk;
  }
}

async function* contents(file: FileHandle, tally: Tally): AsyncGenerator<Buffer, void, void> {
  for (;;) {
    const chunk = Buffer.allocUnsafe(READ_BYTES);
    const { bytesRead } = await file.read(chunk, 0, READ_BYTES, null);
    if (bytesRead === 0) return;
    const read = chunk.subarray(0, bytesRead);
    tally.crc32 = crc32(read, tally.crc32);
    tally.bytes += bytesRead;
    yield read;
  }
}

function tooLarge(): Error {
  return new Error("The files are too large for a zip: it ends at 4 GiB.");
}
