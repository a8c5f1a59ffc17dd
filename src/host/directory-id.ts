import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

/**
 * The name that a data directory keeps wherever it is moved to; made when it is first asked for. Services that
 * share a database tell by it whose builds are whose. A backup leaves it out: what is restored is another directory.
 */
export function directoryId(dataDir: string): string {
  const file = path.join(dataDir, "directory-id");
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const id = randomUUID();
  writeFileSync(file, `${id}\n`, { mode: 0o600 });
  return id;
}
