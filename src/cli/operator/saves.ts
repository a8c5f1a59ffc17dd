import { type FSWatcher, watch } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Condition } from "../../kit/concurrency.ts";

/** An editor writes a file in several steps, and several files one after the other. */
const SETTLE_MS = 40;
/** Files of Python, editors and version control, which are no saves. */
const NOISE = /^\.|^__pycache__$|\.pyc$|~$/;

/**
 * Yields once it watches, and then a moment after each save below the folder; ends at the signal. It watches each
 * folder by itself, because Node's recursive watch loses a file that an editor has replaced.
 */
export async function* savesBelow(folder: string, signal: AbortSignal): AsyncGenerator<void> {
  const condition = new Condition();
  const last: { at: number | null } = { at: null };
  const watchers = new Map<string, FSWatcher>();
  const add = (dir: string): void => {
    const watcher = watch(dir, (_, name) => {
      if (name !== null && NOISE.test(name)) return;
      last.at = performance.now();
      condition.notify();
    });
    // The folder is gone; its replacement is found at the next look.
    const drop = (): boolean => watchers.get(dir) === watcher && watchers.delete(dir);
    watcher.on("error", drop);
    watcher.on("close", drop);
    watchers.set(dir, watcher);
  };
  const look = async (): Promise<void> => {
    const dirs = await foldersBelow(folder);
    for (const dir of dirs) if (!watchers.has(dir)) add(dir);
    for (const [dir, watcher] of watchers) if (!dirs.includes(dir)) watcher.close();
  };
  try {
    await look();
    yield;
    while (!signal.aborted) {
      if (last.at === null) await condition.wait(signal);
      while (last.at !== null && !signal.aborted) {
        const restMs = last.at + SETTLE_MS - performance.now();
        if (restMs <= 0) break;
        await sleep(restMs);
      }
      if (signal.aborted) return;
      last.at = null;
      await look();
      yield;
    }
  } finally {
    for (const watcher of watchers.values()) watcher.close();
  }
}

async function foldersBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const below = entries.filter((entry) => entry.isDirectory() && !NOISE.test(entry.name));
  const deeper = await Promise.all(below.map(({ name }) => foldersBelow(path.join(folder, name))));
  return [folder, ...deeper.flat()];
}
