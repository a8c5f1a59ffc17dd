import { randomUUID } from "node:crypto";
import { lchownSync, mkdirSync, renameSync, statSync } from "node:fs";
import path from "node:path";
import { readdir, utimes } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";

/** Where installers keep what they have fetched or built for a project. What it holds is as good as the project's code. */
export function cacheDir(dataDir: string, projectId: string): string {
  return path.join(dataDir, "caches", projectId);
}

/** Makes it for a user, null for the service's own. One that was another user's, as on another level of isolation, is dropped. */
export async function makeCache(dataDir: string, projectId: string, user: number | null): Promise<string> {
  const cache = cacheDir(dataDir, projectId);
  const owner = user ?? process.getuid?.() ?? 0;
  const found = statSync(cache, { throwIfNoEntry: false });
  const old = found && found.uid !== owner ? `${cache}-${randomUUID()}` : null;
  // At once: another build of the project that begins now must not find it half made, or half removed.
  if (old !== null) renameSync(cache, old);
  mkdirSync(cache, { recursive: true, mode: 0o700 });
  if (user !== null) lchownSync(cache, user, user);
  if (old !== null) await removeTree(old);
  return cache;
}

/** A build has wanted it: it stays for a while. */
export async function touchCache(dataDir: string, projectId: string): Promise<void> {
  const now = new Date();
  await utimes(cacheDir(dataDir, projectId), now, now).catch(() => undefined);
}

/** Removes those that no build has wanted for so long. */
export async function sweepCaches(dataDir: string, keepMs: number, now = Date.now()): Promise<void> {
  const root = path.join(dataDir, "caches");
  for (const name of await readdir(root).catch(() => [])) {
    const folder = path.join(root, name);
    const wantedAt = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? now;
    // A build that still writes to its own keeps nobody else's from being removed.
    if (now - wantedAt >= keepMs) await removeTree(folder).catch(() => undefined);
  }
}
