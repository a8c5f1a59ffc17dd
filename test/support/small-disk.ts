import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statfsSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { until } from "./until.ts";

/** This machine lets us mount nothing. */
export class CannotMountError extends Error {}

/** A real file system of a few megabytes, for the time of a test: ext4 in a file, or a tmpfs where that cannot be. */
export class SmallDisk {
  readonly directory: string;
  readonly kind: "ext4" | "tmpfs";

  private constructor(directory: string, kind: "ext4" | "tmpfs") {
    this.directory = directory;
    this.kind = kind;
  }

  /** Throws `CannotMountError` where that is not allowed. */
  static mount(bytes: number): SmallDisk {
    const place = mkdtempSync(path.join(tmpdir(), "millrace-disk-"));
    const directory = path.join(place, "disk");
    mkdirSync(directory);
    onTestFinished(() => rmSync(place, { recursive: true, force: true }));
    const kind = mountAt(directory, path.join(place, "image"), bytes);
    onTestFinished(() => until("the disk is let go of", () => attempt("umount", directory) === null));
    return new SmallDisk(directory, kind);
  }

  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.directory);
    return bavail * bsize;
  }
}

function mountAt(directory: string, image: string, bytes: number): SmallDisk["kind"] {
  writeFileSync(image, "");
  truncateSync(image, bytes);
  // Nothing kept back for root: what statfs calls free is what there is.
  const made = attempt("mkfs.ext4", "-q", "-F", "-m", "0", image);
  if (made === null && attempt("mount", "-o", "loop", image, directory) === null) return "ext4";
  const failure = attempt("mount", "-t", "tmpfs", "-o", `size=${bytes}`, "none", directory);
  if (failure !== null) throw new CannotMountError(failure);
  return "tmpfs";
}

/** Null, or why it did not work. */
function attempt(program: string, ...args: string[]): string | null {
  try {
    execFileSync(program, args, { stdio: ["ignore", "ignore", "pipe"] });
    return null;
  } catch (error) {
    return String(error instanceof Error ? error.message : error);
  }
}
