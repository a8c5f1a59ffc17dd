import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, rmSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";

/** More than Node has threads for files. */
const MANY = 16;

/**
 * Makes so many file calls that none of Node's threads is left to them, and that hang until the test is over: a pipe
 * that nobody writes to is not open for who wants to read it, as a file on a disk that hangs is not.
 */
export function hangFiles(openFile: (place: string, flags: string) => Promise<FileHandle> = open): void {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-hung-"));
  const pipe = path.join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  const opening = Array.from({ length: MANY }, async () => await openFile(pipe, "r"));
  onTestFinished(async () => {
    const writer = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    for (const handle of await Promise.all(opening)) await handle.close();
    closeSync(writer);
    rmSync(folder, { recursive: true });
  });
}
