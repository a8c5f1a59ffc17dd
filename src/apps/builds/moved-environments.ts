import type { Stats } from "node:fs";
import path from "node:path";
import { lchown, lstat, readFile, readdir, realpath, rename, utimes, writeFile } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { environmentsDir, READY } from "./environments.ts";
import { smallText } from "./small-text.ts";

/** A script that an installer wrote is far smaller. */
const MAX_SCRIPT_BYTES = 1024 * 1024;
/** What every kernel reads of a script's first line. */
const MAX_FIRST_LINE = 127;
/** What a path goes on with: next to one of these it is a part of another. */
const OF_PATH = /[\p{L}\p{N}_.-]/u;

/**
 * Makes environments fit the place they are in, should their directory have been moved or restored elsewhere:
 * packages are found by where Python lies, but scripts name their interpreter by its whole path. Returns how many
 * were changed.
 */
export async function settleMovedEnvironments(dataDir: string): Promise<number> {
  const root = await realPathOf(environmentsDir(dataDir));
  let count = 0;
  for (const name of await readdir(root).catch(() => [])) {
    if (await settle(path.join(root, name))) count += 1;
  }
  return count;
}

/** Services that share environments have links to them, each from a place of its own: what counts is where those lead. */
async function realPathOf(root: string): Promise<string> {
  const stats = await lstat(root).catch(() => null);
  return stats?.isSymbolicLink() ? await realpath(root).catch(() => root) : root;
}

async function settle(folder: string): Promise<boolean> {
  const marker = path.join(folder, READY);
  const found = await lstat(marker).catch(() => null);
  const recorded = await smallText(marker);
  // One that was never finished is swept.
  if (!found || recorded === folder) return false;
  if (!found.isFile()) {
    // No marker of ours, but what a build that was cut short has put in its place.
    await removeTree(marker);
    return false;
  }
  const from = recorded === "" ? await pathInScript(folder) : recorded;
  if (from !== null && from !== folder) await rewrite(folder, from);
  // Last: should the service end in between, the next one begins again.
  await replace(marker, folder, 0o644, null);
  await utimes(marker, found.atime, found.mtime);
  return from !== folder;
}

/** Where an environment was made that does not say so itself, as releases before this one made them. */
async function pathInScript(folder: string): Promise<string | null> {
  const script = await smallText(path.join(folder, "bin", "activate"));
  return /^\s*(?:export )?VIRTUAL_ENV=["']?(\/[^"'\n]+)["']?$/m.exec(script)?.[1] ?? null;
}

async function rewrite(folder: string, from: string): Promise<void> {
  const bin = path.join(folder, "bin");
  // A build may have put links here: what they lead to is not the environment's.
  if (!(await lstat(bin).catch(() => null))?.isDirectory()) return;
  const scripts = (await readdir(bin).catch(() => [])).map((name) => path.join(bin, name));
  for (const file of [path.join(folder, "pyvenv.cfg"), ...scripts]) {
    const stats = await lstat(file).catch(() => null);
    if (!stats?.isFile() || stats.size > MAX_SCRIPT_BYTES) continue;
    const bytes = await readFile(file);
    const script = bytes.toString("utf8");
    // Programs, and whatever else is no text, are not touched.
    if (script.includes("\0") || !Buffer.from(script).equals(bytes)) continue;
    const changed = startable(replaceWhole(script, from, folder), folder);
    if (changed !== script) await replace(file, changed, stats.mode & 0o777, stats);
  }
}

/** Replaces a path, but not where it is a part of another one, such as its own new place. */
function replaceWhole(text: string, from: string, to: string): string {
  const [first = "", ...pieces] = text.split(from);
  let whole = first;
  for (const piece of pieces) {
    const isPart = OF_PATH.test(whole.at(-1) ?? "") || OF_PATH.test(piece.at(0) ?? "");
    whole += (isPart ? from : to) + piece;
  }
  return whole;
}

/** A first line that is too long for the kernel, or has a space in it, becomes one that the shell reads. */
function startable(script: string, folder: string): string {
  const [first = ""] = script.split("\n", 1);
  const isOwn = first.startsWith(`#!${folder}/`);
  if (!isOwn || (first.length <= MAX_FIRST_LINE && !folder.includes(" "))) return script;
  const python = path.join(folder, "bin", "python");
  return `#!/bin/sh\n'''exec' "${python}" "$0" "$@"\n' '''${script.slice(first.length)}`;
}

/** By another file in its place: a copy of the directory may share this one. */
async function replace(file: string, text: string, mode: number, owner: Stats | null): Promise<void> {
  const other = `${file}.new`;
  await removeTree(other);
  await writeFile(other, text, { mode, flag: "wx" });
  // It may be a project's user's, and readable to nobody else.
  if (owner && owner.uid !== process.getuid?.()) await lchown(other, owner.uid, owner.gid);
  await rename(other, file);
}
