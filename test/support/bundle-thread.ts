import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  // oxlint-disable-next-line consistent-type-definitions
  interface ProvidedContext {
    /** The body of a database thread, in one file. */
    readonly threadScript: string;
  }
}

const ENTRY = fileURLToPath(new URL("../../src/store/sqlite/thread.ts", import.meta.url));

/**
 * Puts the sources of a database thread into one file, for all services of a run. Each starts two threads, and
 * to load 290 files one by one takes a thread 600 ms of a processor; one file takes 100.
 */
export async function setup({ provide }: TestProject): Promise<() => void> {
  const outDir = mkdtempSync(path.join(tmpdir(), "millrace-thread-"));
  await build({
    configFile: false,
    logLevel: "error",
    ssr: { noExternal: true },
    build: {
      ssr: ENTRY,
      outDir,
      emptyOutDir: false,
      rolldownOptions: { output: { entryFileNames: "thread.mjs" } },
    },
  });
  provide("threadScript", path.join(outDir, "thread.mjs"));
  return () => rmSync(outDir, { recursive: true, force: true });
}
