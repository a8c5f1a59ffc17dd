import { createHash } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import path from "node:path";

/** Unix socket paths end at 107 bytes; the longest name below the directory is 12. */
const MAX_DIR_BYTES = 90;

/** The short folder for the sockets of one data directory: found again by anybody who knows that directory. */
export function runtimeDir(dataDir: string): string {
  const { uid } = userInfo();
  const name = `millrace-${uid}-${createHash("sha256").update(path.resolve(dataDir)).digest("hex").slice(0, 12)}`;
  const wanted = path.join(process.env["XDG_RUNTIME_DIR"] ?? tmpdir(), name);
  return Buffer.byteLength(wanted) <= MAX_DIR_BYTES ? wanted : path.join("/tmp", name);
}

/** Makes the folder, for its owner alone; throws when somebody else has put something in its place. */
export function makeRuntimeDir(dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const found = lstatSync(dir);
  if (!found.isDirectory() || found.uid !== userInfo().uid) {
    throw new Error(`${dir} belongs to somebody else; remove it, or set TMPDIR to a folder of your own`);
  }
  chmodSync(dir, 0o700);
}
