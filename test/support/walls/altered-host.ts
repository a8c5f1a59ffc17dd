import { execFileSync } from "node:child_process";
import { cpSync, chownSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { PYTHON_DIR } from "../../../src/config/package-files.ts";
import type { WallLevel } from "../../../src/host/walls/walls.ts";
import { REPOSITORY } from "../source-files.ts";
import { FIRST_USER } from "./walled.ts";

const PROGRAM = path.join(REPOSITORY, "test/support/walls/altered-host.py");

/** What of the host is otherwise than it is. */
export type Altered = {
  readonly level: WallLevel;
  /** The version of the kernel's Landlock. */
  readonly landlock?: number;
  /** There is an NVIDIA GPU. */
  readonly nvidia?: boolean;
  /** Devices that play the part of GPUs, and those that the app has. With `none` it may never have any. */
  readonly gpus?: {
    readonly all: readonly string[];
    readonly granted: readonly string[];
    readonly none?: true;
  };
  /** Of the plan. Unless these say otherwise, the app may use the network, and its connections are judged. */
  readonly fields?: Readonly<Record<string, string>>;
};

const JUDGED = { network: "true", management_port: "1" } as const;

/** The arguments of a Python that runs a program behind walls on such a host. */
export function alteredHost(
  { level, landlock, nvidia, gpus, fields = JUDGED }: Altered,
  folder: string,
): string[] {
  const changes = {
    level,
    ...(level === "uid" && { user: String(FIRST_USER) }),
    ...(landlock !== undefined && { landlock }),
    ...(nvidia && { nvidia }),
    ...(gpus && { gpus }),
    ...fields,
  };
  return [PROGRAM, PYTHON_DIR, folder, JSON.stringify(changes)];
}

/** A folder that is removed with the test. */
export function temporaryFolder(owner?: number): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-altered-"));
  onTestFinished(() => removeWalled(folder));
  if (owner !== undefined) chownSync(folder, owner, owner);
  return folder;
}

/** Removes a folder that an app behind walls has used. Where walls mount something, it is closed to its owner, too. */
export function removeWalled(folder: string): void {
  execFileSync("chmod", ["-R", "u+rwX", folder]);
  rmSync(folder, { recursive: true, force: true });
}

/** Copies what an ordinary user needs of this repository to where that user finds it; gives the harness's folder. */
export function copyHarness(folder: string): { readonly harness: string; readonly support: string } {
  const [harness, support] = [path.join(folder, "python"), path.join(folder, "support")];
  cpSync(PYTHON_DIR, harness, { recursive: true });
  cpSync(path.dirname(PROGRAM), support, { recursive: true });
  return { harness, support };
}

/** What a Python program prints behind walls, as JSON. */
export function runAltered(altered: Altered, code: string, ...words: string[]): unknown {
  const args = [...alteredHost(altered, temporaryFolder()), code, ...words];
  return JSON.parse(execFileSync("python3", args, { encoding: "utf8" }));
}
