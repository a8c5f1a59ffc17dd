import { existsSync } from "node:fs";
import { type FileHandle, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { VERSION } from "../../config/package-files.ts";
import { readSettings } from "../../config/settings.ts";
import type { Settings } from "../../config/setting-keys.ts";
import { MASTER_KEY, masterKeyPath } from "../../identity/master-key.ts";
import { createFile } from "../../kit/files.ts";
import { SealedSink } from "../../kit/sealed-file.ts";
import { TarWriter } from "../../kit/tar/archive.ts";
import { lockDirectory, requireReleased } from "../../store/upkeep/directory-lock.ts";
import { copyDatabase, DATABASE_FILE } from "../../store/upkeep/whole-database.ts";
import { askService } from "../ask-service.ts";
import { usage } from "../failure.ts";
import type { OperatorFlags } from "../options.ts";
import { Output, printableName } from "../output.ts";
import { addDataDirectory, FORMAT, MANIFEST_NAME, storageArchiver } from "./archive.ts";
import type { Added, Manifest, Oddities } from "./archive.ts";
import { choosePassphrase, PASSPHRASE_ENV } from "./passphrase.ts";

const PLAIN_ADVICE = `It is not encrypted. Anyone who reads it can act as the owner (owner-token), open every stored secret and sign
tokens (master.key): keep it like a password, or use --encrypt.
`;
const SEALED_ADVICE = "It is encrypted: without the passphrase nobody can restore it, not even you.\n";

/** `millrace backup`: everything that is needed to start again, in one file; the service may keep running. */
export async function backup(file: string, flags: OperatorFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const { dataDir, databaseUrl } = settings;
  const target = path.resolve(file);
  if (existsSync(target)) throw new Error(`${target} already exists; choose another name`);
  if (target.startsWith(`${dataDir}/`))
    throw new Error("the archive cannot be inside the directory it backs up");
  if (!existsSync(path.join(dataDir, "owner-token")) || !existsSync(masterKeyPath(settings)))
    throw new Error(`${dataDir} is not a Millrace data directory`);
  requireReleased(dataDir);
  const passphrase = await wantedPassphrase(flags);
  const odd: Oddities = { leftOut: [], changed: [] };
  const partial = `${target}.partial`;
  try {
    const { count, names } = await write(partial, passphrase, settings, odd);
    await rename(partial, target);
    await syncDirectory(path.dirname(target));
    const { size } = await stat(target);
    const { leftOut, changed } = odd;
    const command =
      databaseUrl === null ? null : (await import("../../store/postgres/backup.ts")).dumpCommand(databaseUrl);
    const document = {
      file: target,
      size_bytes: size,
      entries: count,
      contains: names,
      encrypted: passphrase !== null,
      left_out: leftOut,
      changed,
      database_command: command,
    };
    new Output(flags).show(document, () =>
      [
        `${target} (${size} bytes) holds ${names.join(", ")}.\n`,
        passphrase === null ? PLAIN_ADVICE : SEALED_ADVICE,
        ...leftOut.map((name) => `left out, not a file that can be read: ${printableName(name)}\n`),
        ...changed.map((name) => `changed while it was read: ${printableName(name)}\n`),
        command === null ? "" : `The Postgres database is not included. Back it up too:\n  ${command}\n`,
      ].join(""),
    );
  } finally {
    await rm(partial, { force: true });
  }
}

async function wantedPassphrase(flags: OperatorFlags): Promise<string | null> {
  const file = flags["passphraseFile"];
  if (flags["encrypt"]) return await choosePassphrase(typeof file === "string" ? file : undefined);
  if (file !== undefined) throw usage("a passphrase was given without --encrypt", "add --encrypt");
  if (process.env[PASSPHRASE_ENV]) {
    process.stderr.write(
      `${PASSPHRASE_ENV} is set, but --encrypt was not given: this backup is not encrypted.\n`,
    );
  }
  return null;
}

/**
 * Through the service if one runs; else with the directory locked, so that none starts meanwhile. The copy has no name
 * when this returns: however the process ends, no second database is left.
 */
async function copyAtOneMoment({ dataDir }: Settings, copy: string): Promise<FileHandle> {
  await mkdir(path.dirname(copy), { recursive: true, mode: 0o700 });
  await rm(copy, { force: true });
  try {
    if (!(await askService(dataDir, "copyDatabase", { to: copy }))) {
      const lock = lockDirectory(dataDir);
      try {
        await copyDatabase(dataDir, copy, true);
      } finally {
        lock.release();
      }
    }
    return await open(copy, "r");
  } finally {
    await rm(copy, { force: true });
  }
}

async function write(
  partial: string,
  passphrase: string | null,
  settings: Settings,
  odd: Oddities,
): Promise<Added> {
  const { dataDir, databaseUrl } = settings;
  // First: work accepted after this moment may be missing, work accepted before it is in the archive.
  // Data to be encrypted is never written in the clear where the archive goes.
  const aside = passphrase === null ? partial : path.join(dataDir, "work", path.basename(partial));
  const copy = databaseUrl === null ? await copyAtOneMoment(settings, `${aside}.db`) : null;
  try {
    await rm(partial, { force: true });
    const file = await createFile(partial);
    const tar = new TarWriter(passphrase === null ? file : await SealedSink.over(file, passphrase));
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
      if (copy) await tar.addFile(DATABASE_FILE, copy);
      // Wherever it is: without it, restored data cannot be read.
      await tar.addBytes(MASTER_KEY, await readFile(masterKeyPath(settings)), now.getTime() / 1000);
      const { count, names } = await addDataDirectory(tar, dataDir, odd, storageArchiver(settings));
      await tar.finish();
      return { count: count + 1, names: [...(copy ? [DATABASE_FILE] : []), MASTER_KEY, ...names] };
    } catch (error) {
      await tar.abandon();
      throw error;
    }
  } finally {
    await copy?.close();
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
