import { lstat, readFile } from "../../kit/files.ts";

/** What installers write about an environment is far smaller. */
const MAX_BYTES = 1024 * 1024;

/**
 * The text of a file of an environment; empty for none. A build may have put anything there: a pipe that nobody writes
 * to, a link, a file without end.
 */
export async function smallText(file: string): Promise<string> {
  const found = await lstat(file).catch(() => null);
  if (!found?.isFile() || found.size > MAX_BYTES) return "";
  return await readFile(file, "utf8").catch(() => "");
}
