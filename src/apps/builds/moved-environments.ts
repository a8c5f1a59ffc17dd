import path from "node:path";
import { constants, type Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { lstat, open, readdir, realpath, rename, withHandle } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { environmentsDir, READY } from "./environments.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** What every kernel reads of a script's first line. */
const MAX_FIRST_LINE = 127;
/** How much longer all files of an environment may become: scripts name its place a few times each. */
const MAX_GROWN_CHARS = 64 * 1024 * 1024;
/** A character of a path: next to one, a path is part of a longer one. */
const OF_PATH = /[\p{L}\p{N}_.-]/u;

/** Fits environments to a directory that was moved: scripts name their interpreter by its path. Gives how many changed. */
export async function settleMovedEnvironments(dataDir: string): Promise<number> {
  const root = await realPathOf(environmentsDir(dataDir));
  let count = 0;
  for (const name of await readdir(root).catch(() => [])) if (await settle(path.join(root, name))) count += 1;
  return count;
}

/** Services that share environments link to them, each from a place of its own: the target counts. */
async function realPathOf(root: string): Promise<string> {
  const stats = await lstat(root).catch(() => null);
  return stats?.isSymbolicLink() ? await realpath(root).catch(() => root) : root;
}

/** Fits an unfinished environment, made at another place, to this one. */
export async function fitMoved(folder: string, from: string): Promise<void> {
  await rewrite(folder, from, `${folder}/`);
}

async function settle(folder: string): Promise<boolean> {
  const held = await heldFolder(folder);
  return held !== null && (await withHandle(held, () => settleHeld(folder, inside(held))));
}

/** `here` leads to what is held, though a build may be at work in there and put a link in its place. */
async function settleHeld(folder: string, here: string): Promise<boolean> {
  const marker = here + READY;
  const found = await lstat(marker).catch(() => null);
  const recorded = await smallText(marker);
  // One that was never finished is swept.
  if (!found || recorded === folder) return false;
  if (!found.isFile() || recorded === "") {
    // No marker of ours, but what a build that was cut short has put in its place.
    await removeTree(marker);
    return false;
  }
  await rewrite(folder, recorded, here);
  // Last: if the service ends before, the next one begins again.
  await replace(marker, folder, { mode: 0o644, owner: null, times: found });
  return true;
}

/** Held by its descriptor: whatever takes its name meanwhile is not it. Null for a link, and for what is no folder. */
async function heldFolder(place: string): Promise<FileHandle | null> {
  return await open(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch(() => null);
}

function inside({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}/`;
}

async function rewrite(folder: string, from: string, here: string): Promise<void> {
  const held = await heldFolder(`${here}bin`);
  try {
    const bin = held && inside(held);
    const scripts = bin === null ? [] : (await readdir(bin).catch(() => [])).map((name) => bin + name);
    await rewriteFiles([`${here}pyvenv.cfg`, ...scripts], from, folder);
  } finally {
    await held?.close();
  }
}

async function rewriteFiles(files: readonly string[], from: string, folder: string): Promise<void> {
  let leftChars = MAX_GROWN_CHARS;
  for (const file of files) {
    const found = await readSmall(file);
    // Programs, and whatever else is no text, are not touched.
    if (found === null || found.bytes.includes(0)) continue;
    const script = found.bytes.toString("utf8");
    if (!Buffer.from(script).equals(found.bytes)) continue;
    const changed = startable(replaceWhole(script, from, folder), folder);
    const { stats } = found;
    leftChars -= Math.max(0, changed.length - script.length);
    // What the build says of where it was made can be in its files very often. The rest stays as it is.
    if (leftChars < 0) return;
    if (changed !== script)
      await replace(file, changed, { mode: stats.mode & 0o777, owner: stats, times: null });
  }
}

/** Replaces a path, but not where it is a part of another one, such as its own new place. */
function replaceWhole(text: string, from: string, to: string): string {
  const [first = "", ...pieces] = text.split(from);
  const whole = [first];
  let before = first.at(-1) ?? "";
  for (const piece of pieces) {
    const isPart = OF_PATH.test(before) || OF_PATH.test(piece.at(0) ?? "");
    const put = (isPart ? from : to) + piece;
    whole.push(put);
    before = put.at(-1) ?? "";
  }
  return whole.join("");
}

/** A first line that is too long for the kernel, or has a space in it, becomes one that the shell reads. */
function startable(script: string, folder: string): string {
  const [first = ""] = script.split("\n", 1);
  const isOwn = first.startsWith(`#!${folder}/`);
  if (!isOwn || (first.length <= MAX_FIRST_LINE && !folder.includes(" "))) return script;
  const python = path.join(folder, "bin", "python");
  return `#!/bin/sh\n'''exec' "${python}" "$0" "$@"\n' '''${script.slice(first.length)}`;
}

type Replacement = {
  readonly mode: number;
  /** It may be a project's user, and the file readable to no other; null for the service's own. */
  readonly owner: Stats | null;
  readonly times: Stats | null;
};

/** By another file in its place: a copy of the directory may share this one. */
async function replace(file: string, text: string, { mode, owner, times }: Replacement): Promise<void> {
  const other = `${file}.new`;
  await removeTree(other);
  await withHandle(await open(other, "wx", mode), async (made) => {
    await made.writeFile(text);
    if (owner && owner.uid !== process.getuid?.()) await made.chown(owner.uid, owner.gid);
    if (times) await made.utimes(times.atime, times.mtime);
  });
  await rename(other, file);
}

/** What installers write about an environment, and their scripts, are far smaller. */
const MAX_BYTES = 1024 * 1024;

/** A file of an environment; null for none. A build may have put a link, a pipe or an endless file there. */
async function readSmall(file: string): Promise<{ readonly bytes: Buffer; readonly stats: Stats } | null> {
  const opened = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(() => null);
  if (opened === null) return null;
  try {
    const stats = await opened.stat();
    if (!stats.isFile() || stats.size > MAX_BYTES) return null;
    const { buffer, bytesRead } = await opened.read(Buffer.alloc(stats.size));
    return { bytes: buffer.subarray(0, bytesRead), stats };
  } catch {
    return null;
  } finally {
    await opened.close();
  }
}

/** Its text; empty for none. */
export async function smallText(file: string): Promise<string> {
  return (await readSmall(file))?.bytes.toString("utf8") ?? "";
}
