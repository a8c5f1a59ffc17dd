import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { extractBundle, type ExtractOptions } from "../../src/apps/bundles/extract.ts";
import { BundleError } from "../../src/apps/bundles/zip-directory.ts";
import type { ZipItem } from "./zip-maker.ts";

/** By title: a zip, what must be said of it, and how it is unpacked. */
export type RefusedZips = Readonly<Record<string, readonly [Buffer, RegExp, ExtractOptions?]>>;

/** The honest part of a hostile zip. */
export const MAIN: ZipItem = { name: "main.py", content: "def run():\n    return 1\n" };

/** Why a zip is refused; throws if it is not, or if a trace of it is left around. */
export async function refusal(zip: Buffer, options?: ExtractOptions): Promise<readonly string[]> {
  const root = mkdtempSync(path.join(tmpdir(), "millrace-zip-"));
  const file = path.join(root, "in.zip");
  mkdirSync(path.join(root, "a", "b"), { recursive: true });
  writeFileSync(file, zip);
  try {
    const error = await extractBundle(file, path.join(root, "a", "b", "bundle"), options).then(
      () => new Error("the zip was taken"),
      (error: unknown) => error,
    );
    if (!(error instanceof BundleError)) throw error;
    const left = readdirSync(root, { recursive: true, encoding: "utf8" }).toSorted().join(" ");
    if (left !== "a a/b in.zip") throw new Error(`left behind: ${left}`);
    return error.problems;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** Unpacks a zip that is to be taken, and tells what came of it. */
export async function unpacked(zip: Buffer): Promise<{ files: number; bytes: number }> {
  const root = mkdtempSync(path.join(tmpdir(), "millrace-zip-"));
  const file = path.join(root, "in.zip");
  writeFileSync(file, zip);
  try {
    return await extractBundle(file, path.join(root, "bundle"));
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}
