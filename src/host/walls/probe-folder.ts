import { existsSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

/** A folder to try walls in. Not in the data directory, which may not exist yet; nor may what TMPDIR names. */
export async function makeProbeFolder(): Promise<string> {
  const root = existsSync(tmpdir()) ? tmpdir() : "/tmp";
  return await mkdtemp(path.join(root, "millrace-walls-"));
}
