import { constants, type Stats } from "node:fs";
import { open } from "../../kit/files.ts";

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** What installers write about an environment, and their scripts, are far smaller. */
const MAX_BYTES = 1024 * 1024;

/**
 * A file of an environment; null for none. A build may have put anything there, and may be about to: a pipe that
 * nobody writes to, a link, a file without end.
 */
export async function readSmall(
  file: string,
): Promise<{ readonly bytes: Buffer; readonly stats: Stats } | null> {
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
