import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Readable } from "node:stream";
import { z } from "zod";
import { findInterpreter } from "../host/interpreter.ts";
import { storageFolder } from "../host/data-folders.ts";
import { StorageFolders, ownerOf } from "../host/storage/folders.ts";
import { Home } from "../engines/home.ts";
import { readBytes, readLine, StorageHelper } from "../engines/programs/storage-helper.ts";
import { systemClock } from "../kit/clock.ts";
import type { TarWriter } from "../kit/tar/write.ts";
import type { Settings } from "../config/setting-keys.ts";
import { isPlain, isTooLong } from "../kit/tar/inside.ts";
import { mayLead } from "./archive.ts";
import type { AddStorage, Oddities } from "./archive.ts";

const MAX_LINE_BYTES = 128 * 1024;
const NAME = z.string().min(1).max(8_192);
const HEAD = { name: NAME, mode: z.int().min(0).max(0o7777), modified: z.number() };

/** What the helper says of one thing in a volume. */
const RECORD = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("directory"), ...HEAD }),
  z.strictObject({ kind: z.literal("file"), ...HEAD, size: z.int().min(0) }),
  z.strictObject({ kind: z.literal("link"), ...HEAD, target: z.string().max(8_192) }),
  z.strictObject({ kind: z.literal("odd"), name: NAME }),
  z.strictObject({ kind: z.literal("over") }),
]);
const FILE_END = z.strictObject({ kind: z.literal("end"), changed: z.boolean() });

/** Adds the storage of projects that have users of their own, each read by a helper that is that user. */
export function storageArchiver(settings: Pick<Settings, "dataDir" | "uidRange" | "python">): AddStorage {
  return async (tar, projectId, odd) => {
    const { dataDir, uidRange } = settings;
    const python = (await findInterpreter(settings.python)).path;
    const { user } = ownerOf(storageFolder(projectId, dataDir));
    const folders = new StorageFolders(dataDir, uidRange, new Map([[projectId, user]]));
    const own = await mkdtemp(path.join(tmpdir(), "millrace-archive-"));
    const home = await Home.open(own);
    const helper = new StorageHelper({ python, dataDir, folders, home, clock: systemClock });
    try {
      const { rest } = await helper.stream(projectId, { operation: "archive" });
      return await copy(rest, tar, `storage/${projectId}`, odd);
    } finally {
      await helper.stop();
      await home.close();
      await rm(own, { recursive: true, force: true });
    }
  };
}

async function copy(source: Readable, tar: TarWriter, folder: string, odd: Oddities): Promise<number> {
  let count = 0;
  for (;;) {
    const record = RECORD.parse(await next(source));
    if (record.kind === "over") return count;
    const name = placed(folder, record.name);
    if (isTooLong(name)) {
      if (record.kind === "file") await pass(source, record.size);
      odd.leftOut.push(name);
      continue;
    }
    switch (record.kind) {
      case "directory":
        await tar.addDirectory(name, record.mode, record.modified);
        break;
      case "file": {
        const head = { mode: record.mode, sizeBytes: record.size, modifiedAt: record.modified };
        await tar.addPieces(name, head, readBytes(source, record.size));
        if (FILE_END.parse(await next(source)).changed) odd.changed.push(name);
        break;
      }
      case "link":
        if (mayLead(name, record.target)) {
          await tar.addLink(name, record.target, record.modified);
          break;
        }
        odd.leftOut.push(name);
        continue;
      case "odd":
        odd.leftOut.push(name);
        continue;
    }
    count += 1;
  }
}

/** Reads past a file. */
async function pass(source: Readable, sizeBytes: number): Promise<void> {
  const pieces = readBytes(source, sizeBytes);
  while (!(await pieces.next()).done);
  FILE_END.parse(await next(source));
}

async function next(source: Readable): Promise<unknown> {
  const line = await readLine(source, MAX_LINE_BYTES);
  if (line === null) throw new Error("the helper that reads a project's storage ended too early");
  return JSON.parse(line);
}

/** A name below a folder. Throws if it would be anywhere else. */
function placed(folder: string, name: string): string {
  if (!isPlain(name)) throw new Error(`a name that is none: ${JSON.stringify(name)}`);
  return `${folder}/${name}`;
}
