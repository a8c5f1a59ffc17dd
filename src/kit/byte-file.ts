import type { FileHandle } from "node:fs/promises";
import { open } from "./files.ts";

/** Where bytes are written one after the other. */
export type ByteSink = {
  write(bytes: Buffer): Promise<void>;
  /** Waits until all of it is on disk, and closes. */
  finish(): Promise<void>;
  /** Lets go of it as it is. */
  abandon(): Promise<void>;
};

/** Where bytes are read one after the other. */
export type ByteReader = {
  /** Fills the buffer from its begin; gives how many bytes came, 0 at the end. */
  read(into: Buffer): Promise<number>;
  close(): Promise<void>;
};

/** A new file that only its owner reads. Throws if there is one of the name. */
export async function createFile(path: string): Promise<ByteSink> {
  const file = await open(path, "wx", 0o600);
  return {
    write: (bytes) => writeAll(file, bytes),
    finish: async () => {
      await file.sync();
      await file.close();
    },
    abandon: () => file.close(),
  };
}

/** A file from its begin. */
export async function openFile(path: string): Promise<ByteReader> {
  const file = await open(path, "r");
  return {
    read: async (into) => (await file.read(into, 0, into.length, null)).bytesRead,
    close: () => file.close(),
  };
}

async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    at += (await file.write(bytes, at, bytes.length - at)).bytesWritten;
  }
}
