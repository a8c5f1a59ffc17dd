import { randomBytes } from "node:crypto";
import { chmod, mkdir, open, readdir, rename, rm, rmdir, symlink, utimes } from "node:fs/promises";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import type { Settings } from "../../config/setting-keys.ts";
import { readSettings } from "../../config/settings.ts";
import { MASTER_KEY } from "../../identity/master-key.ts";
import { isSealedFile, SealedReader } from "../../kit/sealed-file.ts";
import { BadTar, type TarEntry, type TarHeader, TarReader } from "../../kit/tar/archive.ts";
import { isPlain } from "../../kit/tar/unpack-folder.ts";
import { UnreleasedFormat } from "../../store/schema/unreleased.ts";
import { openStore } from "../../store/store.ts";
import { inspectDatabase } from "../../store/upkeep/whole-database.ts";
import type { OperatorFlags } from "../options.ts";
import { FORMAT, type Manifest, MANIFEST_NAME, mayLead } from "./archive.ts";
import { askPassphrase } from "./passphrase.ts";

const MAX_MANIFEST_BYTES = 64 * 1024;

/** `millrace restore`: makes a data directory of an archive, all of it or nothing. */
export async function restore(file: string, flags: OperatorFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const { dataDir } = settings;
  await requireEmpty(dataDir);
  await mkdir(path.dirname(dataDir), { recursive: true });
  const staging = `${dataDir}.restoring-${randomBytes(4).toString("hex")}`;
  // Before anything is created: the user may have to type a passphrase, and give up.
  const tar = await openArchive(path.resolve(file), flags["passphraseFile"]);
  try {
    await mkdir(staging, { mode: 0o700 });
    const manifest = await unpack(tar, staging);
    await settle(manifest, staging, settings);
    await rmdir(dataDir).catch(ignoreMissing);
    await rename(staging, dataDir);
    const fields = { data_dir: dataDir, created_at: manifest.created_at, version: manifest.version };
    const text = `${dataDir} is restored to ${manifest.created_at}. ${nextStep(settings)}`;
    process.stdout.write(`${flags["json"] ? JSON.stringify(fields) : text}\n`);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

function nextStep({ dataDir, masterKeyFile }: Settings): string {
  if (masterKeyFile === null) return "You can start the service now.";
  return `Its master key is ${path.join(dataDir, MASTER_KEY)}: make sure that ${masterKeyFile} holds the same, then start the service.`;
}

async function requireEmpty(dataDir: string): Promise<void> {
  const entries = await readdir(dataDir).catch(ignoreMissing);
  if (entries && entries.length > 0) {
    throw new Error(`${dataDir} is not empty; restore into a new directory, named by --data-dir`);
  }
}

async function openArchive(file: string, passphraseFile: unknown): Promise<TarReader> {
  if (!(await isSealedFile(file))) return await TarReader.open(file);
  const passphrase = await askPassphrase(typeof passphraseFile === "string" ? passphraseFile : undefined);
  return new TarReader(await SealedReader.open(file, passphrase));
}

/** Links come last, so that no file is written through one; directories get their modes when they are full. */
async function unpack(tar: TarReader, staging: string): Promise<Manifest> {
  const links: TarHeader[] = [];
  const directories: TarHeader[] = [];
  const names = new Set<string>();
  let manifest: Manifest | null = null;
  try {
    for await (const entry of tar.entries()) {
      const name = checkedName(entry, names);
      if (!manifest) {
        manifest = await readManifest(name, entry);
        continue;
      }
      const destination = path.join(staging, name);
      if (entry.kind === "file") await writeEntry(destination, entry);
      else if (entry.kind === "directory") await mkdir(destination, { recursive: true, mode: 0o700 });
      (entry.kind === "link" ? links : directories).push({ ...entry, name });
    }
  } finally {
    await tar.close();
  }
  if (!manifest) throw new BadTar("it is empty");
  const linked = new Set(links.map(({ name }) => name));
  for (const { name, target } of links) {
    // Below another link it could be anywhere, and point anywhere from there.
    if (isBelow(name, linked)) throw new BadTar(`the link ${name} lies below another`);
    if (!mayLead(name, target)) throw new BadTar(`the link ${name} points outside its project`);
    await symlink(target, path.join(staging, name));
  }
  for (const { name, kind, mode } of directories.toReversed()) {
    if (kind === "directory") await chmod(path.join(staging, name), mode);
  }
  return manifest;
}

function isBelow(name: string, links: ReadonlySet<string>): boolean {
  for (let end = name.lastIndexOf("/"); end > 0; end = name.lastIndexOf("/", end - 1))
    if (links.has(name.slice(0, end))) return true;
  return false;
}

/** The entry's name, below the data directory and given once. */
function checkedName({ name: given }: TarHeader, names: Set<string>): string {
  const name = given.replace(/\/$/, "");
  if (!isPlain(name) || names.has(name)) {
    throw new BadTar(`an entry has the invalid name ${JSON.stringify(given)}`);
  }
  names.add(name);
  return name;
}

async function writeEntry(destination: string, { content, mode, modifiedAt }: TarEntry): Promise<void> {
  await mkdir(path.dirname(destination), { recursive: true, mode: 0o700 });
  const file = await open(destination, "wx", mode | 0o600);
  try {
    for await (const bytes of content) await file.writeFile(bytes);
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
  // Python compares it with the time in its compiled code.
  await utimes(destination, modifiedAt, modifiedAt);
}

async function readManifest(name: string, { content, sizeBytes }: TarEntry): Promise<Manifest> {
  if (name !== MANIFEST_NAME || sizeBytes > MAX_MANIFEST_BYTES)
    throw new BadTar("it was not written by millrace backup");
  const manifest = JSON.parse((await buffer(content)).toString()) as Manifest;
  if (manifest.format < FORMAT) throw new UnreleasedFormat("the archive");
  if (manifest.format !== FORMAT)
    throw new BadTar("it was written by a newer release; restore it with that release");
  return manifest;
}

/** Checks the database and brings it to this release's schema. */
async function settle(manifest: Manifest, staging: string, settings: Settings): Promise<void> {
  const databaseUrl = manifest.store === "postgres" ? settings.databaseUrl : null;
  if (manifest.store === "postgres" && databaseUrl === null) {
    throw new Error(
      "the archive belongs to a Postgres database: restore that database first, then set MILLRACE_DATABASE_URL",
    );
  }
  await (await openStore({ databaseUrl, dataDir: staging })).close();
  const { problems } = await inspectDatabase({ databaseUrl, dataDir: staging }, true);
  if (problems.length > 0) throw new Error(`the database in the archive is damaged: ${problems[0]}`);
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}
