import { hash } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync, type Stats } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** Unix socket paths end at 107 bytes; the longest name below the directory is 12. */
const MAX_DIR_BYTES = 90;

/** The short folder for the sockets of a data directory; it follows from the directory's path. */
export function runtimeDir(dataDir: string): string {
  const name = `millrace-${ownUid()}-${hash("sha256", path.resolve(dataDir)).slice(0, 12)}`;
  const wanted = path.join(process.env["XDG_RUNTIME_DIR"] ?? tmpdir(), name);
  return Buffer.byteLength(wanted) <= MAX_DIR_BYTES ? wanted : path.join("/tmp", name);
}

/** Creates the folder, readable by its owner alone. Throws if another user owns the path. */
export function makeRuntimeDir(dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  requireOwn(dir, lstatSync(dir));
  chmodSync(dir, 0o700);
}

/** Null if it does not exist. Throws if another user owns it or can write to it, because the sockets could be theirs. */
export function findRuntimeDir(dir: string): string | null {
  const found = lstatSync(dir, { throwIfNoEntry: false });
  if (!found) return null;
  requireOwn(dir, found);
  if ((found.mode & 0o022) !== 0) throw new Error(`other users can write to ${dir}; remove it`);
  return dir;
}

function requireOwn(dir: string, found: Stats): void {
  if (found.isDirectory() && found.uid === ownUid()) return;
  throw new Error(`${dir} belongs to another user; remove it, or set TMPDIR to a folder of your own`);
}

/** Not by `userInfo`, which throws if the user has no name, as in a container that was given any number. */
function ownUid(): number {
  return process.getuid?.() ?? 0;
}
