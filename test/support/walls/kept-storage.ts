import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished, type TestContext } from "vitest";
import { Volumes } from "../../../src/apps/volumes/volumes.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { StorageFolders } from "../../../src/host/storage/folders.ts";
import { Home } from "../../../src/engines/home.ts";
import { StorageHelper } from "../../../src/engines/programs/storage-helper.ts";
import { type Clock, systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Seal } from "../../../src/kit/seal.ts";
import { REPOSITORY } from "../source-files.ts";
import { FIRST_USER, requireOffered } from "./walled.ts";

/** Whose the files of a project are: the service's own user's, or one's of the project. */
export const WHOSE = ["the service", "the project"] as const;
export type Whose = (typeof WHOSE)[number];

export const PROJECT = "p-one";
export const RANGE = { first: FIRST_USER, last: FIRST_USER + 99 };

/** The volumes of a data directory of the test's own; skips, and says why, where a project cannot have a user. */
export async function openVolumes(whose: Whose, context: TestContext, clock: Clock = systemClock) {
  if (whose === "the project") await requireOffered("uid", context);
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-kept-"));
  const python = (await findInterpreter("python3")).path;
  const folders = new StorageFolders(dataDir, whose === "the project" ? RANGE : null);
  const home = await Home.open(mkdtempSync(path.join(tmpdir(), "millrace-home-")));
  const helper =
    whose === "the project" ? new StorageHelper({ python, dataDir, folders, home, clock }) : null;
  const log = createLog("silent");
  const volumes = new Volumes({
    dataDir,
    storage: folders,
    helper,
    seal: new Seal(randomBytes(32)),
    clock: systemClock,
    log,
    shortage: () => null,
  });
  onTestFinished(async () => {
    await volumes.stop();
    await home.close();
    rmSync(path.dirname(home.address), { recursive: true, force: true });
    rmSync(dataDir, { recursive: true, force: true });
  });
  const folder = folders.make(PROJECT);
  const user = folders.userOf(PROJECT);
  /** What the test has made there becomes the project's. */
  const give = (place = folder): void => {
    if (user === null) return;
    for (const entry of readdirSync(place, { withFileTypes: true })) {
      const target = path.join(place, entry.name);
      if (entry.isDirectory()) give(target);
      if (!entry.isSymbolicLink()) chownSync(target, user, user);
    }
  };
  return { volumes, helper, dataDir, folder, user, python, give };
}

/** An app of that user that swaps a folder in its storage for a link to one elsewhere, and back, until it is stopped. */
export async function startRacer(folder: string, elsewhere: string, user: number | null) {
  mkdirSync(folder, { recursive: true });
  const program = path.join(REPOSITORY, "test/support/walls/racer.py");
  const child = spawn("python3", [program, folder, elsewhere, user === null ? "own" : String(user)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const gone = once(child, "exit");
  const stop = async (): Promise<void> => {
    child.stdin.end();
    await gone;
  };
  onTestFinished(stop);
  await once(child.stdout, "data");
  return { stop };
}
