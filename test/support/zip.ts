import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { writeZip } from "../../src/apps/bundles/write-zip.ts";

/** A zip of files given as text. */
export async function zipOf(files: Readonly<Record<string, string>>): Promise<Uint8Array<ArrayBuffer>> {
  const dir = await mkdtemp(path.join(tmpdir(), "millrace-zip-"));
  try {
    const sources = [];
    for (const [name, text] of Object.entries(files)) {
      const file = path.join(dir, name);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, text);
      sources.push({ name, path: file });
    }
    const to = new PassThrough();
    const [bytes] = await Promise.all([buffer(to), writeZip(sources, to)]);
    return Uint8Array.from(bytes);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
