import { readFileSync } from "node:fs";

const LINE = /^Max open files\s+(\d+)/m;
/** Database, logs, sockets of replicas, files of uploads: never less than this, and of a large limit a quarter. */
const LEAST_KEPT_BACK = 256;
const KEPT_BACK = 1 / 4;

/** How many files and connections this process may have open; null where nothing tells. Node asks for all it may have. */
export function openFilesLimit(): number | null {
  try {
    const [, limit] = LINE.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return limit === undefined ? null : Number(limit);
  } catch {
    return null; // Only Linux has it.
  }
}

/** How many connections all listeners together may hold, so that all of them full leave enough for the service's own work. */
export function connectionsFor(filesLimit: number): number {
  return filesLimit - Math.max(LEAST_KEPT_BACK, Math.ceil(filesLimit * KEPT_BACK));
}
