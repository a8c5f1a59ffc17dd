import { closeSync, constants, fstatSync, openSync, readSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import * as z from "zod/mini";
import { ESCAPE_REPORT, type EscapeReport } from "../../shapes/installation.ts";

const FILE = "escape-report.json";
const MAX_BYTES = 64 * 1024;

/** Stores the last report of `millrace doctor --escape` in the data directory. */
export function writeEscapeReport(dataDir: string, report: EscapeReport): void {
  const file = path.join(dataDir, FILE);
  writeFileSync(`${file}.new`, `${JSON.stringify(report)}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** The last report; null if there is none, or it cannot be read. */
export function readEscapeReport(dataDir: string): EscapeReport | null {
  try {
    const { data } = z.safeParse(ESCAPE_REPORT, JSON.parse(readBounded(path.join(dataDir, FILE))));
    return data ?? null;
  } catch {
    return null;
  }
}

/** Does not follow links or block on pipes. */
function readBounded(file: string): string {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { size } = fstatSync(descriptor);
    if (size > MAX_BYTES) throw new Error(`${file} is too large`);
    const bytes = Buffer.alloc(size);
    return bytes.toString("utf8", 0, readSync(descriptor, bytes, 0, size, 0));
  } finally {
    closeSync(descriptor);
  }
}
