import { existsSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { listBundleFiles } from "../apps/bundles/list-files.ts";
import type { BundleFile, BundlePatterns } from "../apps/bundles/list-files.ts";
import { loadAppConfig } from "../config/app-config.ts";
import { APP_NAME } from "../model/names.ts";
import { asAppName, badName } from "./app-name.ts";
import { usage } from "./failure.ts";

/** A folder that can be deployed, read and checked. */
export type AppFolder = {
  readonly folder: string;
  readonly name: string;
  readonly patterns: BundlePatterns;
  /** Odd, but no reason to stop. */
  readonly warnings: readonly string[];
};

/** Reads an app's folder and finds all that is wrong with it before anything is sent. */
export function readAppFolder(given: string | undefined, nameGiven?: string): AppFolder {
  const folder = path.resolve(given ?? ".");
  if (!existsSync(folder) || !statSync(folder).isDirectory()) {
    throw usage(`there is no folder ${given ?? folder}`, `millrace init ${given ?? "."}`);
  }
  const { config, warnings } = loadAppConfig(folder, { host: { cpuCount: availableParallelism() } });
  if (config.customRuntime === null && !existsSync(path.join(folder, "main.py"))) {
    throw usage(`${given ?? "this folder"} has no main.py`, `millrace init ${given ?? "."} creates an app`);
  }
  const name = nameGiven ?? config.deployment.name ?? asAppName(path.basename(folder));
  if (!APP_NAME.test(name)) throw badName(name);
  const { include, exclude } = config.deployment;
  return { folder, name, patterns: { include, exclude }, warnings };
}

/** The files that go into the bundle; throws when there is none. */
export async function bundleFilesOf({ folder, patterns }: AppFolder): Promise<BundleFile[]> {
  const files = await listBundleFiles(folder, patterns);
  if (!files.some(({ name }) => name === "main.py") && existsSync(path.join(folder, "main.py"))) {
    throw usage("include and exclude leave out main.py", "see [deployment] in millrace.toml");
  }
  return files;
}
