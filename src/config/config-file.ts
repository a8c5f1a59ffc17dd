import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

import { MAX_TOML_BYTES } from "./toml.ts";

/** What a path turned out to be. */
export type FileText =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "absent" }
  | { readonly kind: "unusable"; readonly reason: string };

/**
 * Reads a configuration file whole. At most 64 KiB are ever read, so doing it synchronously holds the
 * event loop for well under a millisecond.
 */
export function readConfigFile(path: string): FileText {
  let descriptor: number;
  try {
    // Without O_NONBLOCK the opening of a named pipe would wait for a writer that never comes.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? { kind: "absent" } : { kind: "unusable", reason: `cannot be read: ${code}` };
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return { kind: "unusable", reason: "is not a regular file" };
    if (stats.size > MAX_TOML_BYTES) {
      return { kind: "unusable", reason: `must be at most ${MAX_TOML_BYTES} bytes, got ${stats.size}` };
    }
    const text = new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(descriptor));
    return { kind: "text", text };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    const reason = code === "ERR_ENCODING_INVALID_ENCODED_DATA" ? "is not UTF-8" : `cannot be read: ${code}`;
    return { kind: "unusable", reason };
  } finally {
    closeSync(descriptor);
  }
}
