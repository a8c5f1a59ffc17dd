import type { ReadStream } from "node:fs";
import type { PassThrough, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";
import { open, stat } from "../../kit/files.ts";
import { judgeEntryName, showName } from "./entry-names.ts";

/** A file, and its name in the zip. */
type ZipSource = { readonly name: string; readonly path: string };

/** Where the format's time begins, on every machine's clock: equal files make equal zips. */
const TIME = { mtime: new Date(1980, 0, 1), forceDosTimestamp: true };

/** Writes a zip and ends the stream. Equal files give equal bytes, in whatever order they come. */
export async function writeZip(files: readonly ZipSource[], to: Writable): Promise<void> {
  let reading: ReadStream | undefined;
  try {
    const sources = [];
    for (const source of files.toSorted(byName)) sources.push({ ...source, mode: await modeOf(source) });
    const zip = new ZipFile();
    // Its type knows of no `destroy`.
    const out = zip.outputStream as PassThrough;
    const fail = (error: Error): void => void out.destroy(error);
    const read = async (path: string): Promise<ReadStream> => {
      reading = (await open(path, "r")).createReadStream().on("error", fail);
      if (out.destroyed) reading.destroy();
      return reading;
    };
    for (const { name, path, mode } of sources) {
      zip.addReadStreamLazy(name, { ...TIME, mode }, (give) => {
        read(path).then((stream) => give(null, stream), fail);
      });
    }
    zip.end();
    await pipeline(out, to);
  } catch (error) {
    to.destroy();
    throw error;
  } finally {
    // yazl leaves it open when its output is no longer read.
    reading?.destroy();
  }
}

function byName(a: ZipSource, b: ZipSource): number {
  return Buffer.from(a.name).compare(Buffer.from(b.name));
}

async function modeOf({ name, path }: ZipSource): Promise<number> {
  // The service would refuse it too; but yazl writes a backslash as a slash, and the file would be another.
  const judged = judgeEntryName(Buffer.from(name));
  if (judged.kind === "refused") throw new Error(`${showName(name)} ${judged.problem}`);
  return ((await stat(path)).mode & 0o100) === 0 ? 0o100644 : 0o100755;
}
