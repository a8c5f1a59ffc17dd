import { createHash } from "node:crypto";
import { open, stat } from "../../kit/files.ts";
import { type BundlePatterns, DEFAULT_PATTERNS, listBundleFiles } from "./list-files.ts";

/** A hash over a folder's files, their names, contents and right to be executed: equal for equal bundles. */
export async function hashFolder(
  folder: string,
  patterns: BundlePatterns = DEFAULT_PATTERNS,
): Promise<string> {
  const hash = createHash("sha256");
  for (const { name, path } of await listBundleFiles(folder, patterns)) {
    const { mode, size } = await stat(path);
    hash.update(`${name}\0${mode & 0o100}\0${size}\0`);
    for await (const chunk of (await open(path)).createReadStream() as AsyncIterable<Buffer>)
      hash.update(chunk);
  }
  return hash.digest("hex");
}
