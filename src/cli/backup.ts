import { existsSync } from "node:fs";
import { open, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { VERSION } from "../config/release.ts";
import { readSettings } from "../config/settings.ts";
import type { Settings } from "../config/setting-keys.ts";
import { TarWriter } from "../kit/tar/write.ts";
import { lockDirectory } from "../store/directory-lock.ts";
import { DATABASE_FILE, copyDatabase } from "../store/upkeep.ts";
import { FORMAT, MANIFEST_NAME, addDataDirectory, addFile } from "./archive.ts";
import type { Manifest, Oddities } from "./archive.ts";
import { askService } from "./ask-service.ts";
import type { ServeFlags } from "./serve.ts";

/** `millrace backup`: everything that is needed to start again, in one file; the service may go on meanwhile. */
export async function backup(file: string, flags: ServeFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const { dataDir, databaseUrl } = settings;
  const target = path.resolve(file);
  if (existsSync(target)) throw new Error(`${target} is there already; choose another name`);
  if (target.startsWith(`${dataDir}/`)) throw new Error("the archive cannot lie in what it holds");
  if (!existsSync(path.join(dataDir, "master.key"))) throw new Error(`${dataDir} holds nothing of Millrace`);
  const odd: Oddities = { leftOut: [], changed: [] };
  const partial = `${target}.partial`;
  // Before anything else: what is accepted after this moment may be missing, what was before it is there.
  const copy = databaseUrl === null ? `${partial}.db` : null;
  try {
    if (copy !== null) await copyAtOneMoment(settings, copy);
    const entries = await write(partial, copy, settings, odd);
    await rename(partial, target);
    await syncDirectory(path.dirname(target));
    await report(target, entries, odd, settings, flags["json"] === true);
  } finally {
    await rm(partial, { force: true });
    if (copy !== null) await rm(copy, { force: true });
  }
}

/** Through the service if one runs; else with the directory locked, so that none begins meanwhile. */
async function copyAtOneMoment({ dataDir }: Settings, to: string): Promise<void> {
  await rm(to, { force: true });
  if (await askService(dataDir, "copyDatabase", { to })) return;
  const lock = lockDirectory(dataDir);
  try {
    await copyDatabase(dataDir, to, true);
  } finally {
    lock.release();
  }
}

async function write(
  partial: string,
  copy: string | null,
  { dataDir }: Settings,
  odd: Oddities,
): Promise<number> {
  await rm(partial, { force: true });
  const tar = await TarWriter.create(partial);
  try {
    const now = new Date();
    const manifest: Manifest = {
      format: FORMAT,
      version: VERSION,
      created_at: now.toISOString(),
      store: copy === null ? "postgres" : "sqlite",
      data_dir: dataDir,
    };
    await tar.addBytes(MANIFEST_NAME, Buffer.from(JSON.stringify(manifest)), now.getTime() / 1000);
    if (copy !== null) {
      await addFile(tar, DATABASE_FILE, copy);
    }
    const entries = await addDataDirectory(tar, dataDir, odd);
    await tar.finish();
    return entries;
  } catch (error) {
    await tar.abandon();
    throw error;
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function report(
  file: string,
  entries: number,
  { leftOut, changed }: Oddities,
  { databaseUrl }: Settings,
  isJson: boolean,
): Promise<void> {
  const { size } = await stat(file);
  const command =
    databaseUrl === null ? null : (await import("../store/postgres/backup.ts")).dumpCommand(databaseUrl);
  if (isJson) {
    const fields = { file, size_bytes: size, entries, left_out: leftOut, changed, database_command: command };
    process.stdout.write(`${JSON.stringify(fields)}\n`);
    return;
  }
  process.stdout.write(`${file} (${size} bytes) holds the data directory. It is as secret as that.\n`);
  for (const name of leftOut) process.stdout.write(`left out, no file of its own: ${name}\n`);
  for (const name of changed) process.stdout.write(`changed while it was read: ${name}\n`);
  if (command) process.stdout.write(`The Postgres database is not in it. Save it too:\n  ${command}\n`);
}
