import { statSync } from "node:fs";
import { stat } from "../../kit/files.ts";

/**
 * Which files a database consists of: device and inode of the file and of its write-ahead log. SQLite keeps both for as
 * long as it has them open, and the kernel gives their numbers to no other file meanwhile.
 */
export type FileIdentity = readonly string[];

type Facts = { readonly dev: bigint; readonly ino: bigint; readonly size: bigint };

const filesOf = (path: string): readonly string[] => [path, `${path}-wal`];

/** The files at that path now; null if one is missing, cannot be reached, or is a database cut to nothing. */
export function identify(path: string): FileIdentity | null {
  try {
    return identityOf(filesOf(path).map((file) => statSync(file, { bigint: true })));
  } catch {
    return null;
  }
}

/** The same for a thread that must not wait for the disk. */
export async function identifyLater(path: string): Promise<FileIdentity | null> {
  try {
    const facts: Facts[] = [];
    for (const file of filesOf(path)) facts.push(await stat(file, { bigint: true }));
    return identityOf(facts);
  } catch {
    return null;
  }
}

/** Whether they are the same files. */
export function isSame(one: FileIdentity, other: FileIdentity | null): boolean {
  return other !== null && one.every((file, index) => file === other[index]);
}

function identityOf(facts: readonly Facts[]): FileIdentity | null {
  // The log is empty now and then; the database has a first page from the moment it is opened.
  if (facts[0]?.size === 0n) return null;
  return facts.map(({ dev, ino }) => `${dev}:${ino}`);
}
