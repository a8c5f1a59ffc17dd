import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { type BundleFile, type BundlePatterns, listBundleFiles } from "../../apps/bundles/list-files.ts";
import { loadAppConfig } from "../../config/app-config.ts";
import { describeCog } from "../../config/cog.ts";
import { APP_NAME } from "../../model/names.ts";
import { usage } from "../failure.ts";

/** A folder that can be deployed, read and checked. */
export type AppFolder = {
  readonly folder: string;
  readonly name: string;
  readonly patterns: BundlePatterns;
  /** A path that answers where the app is a server of its own; null where it offers functions. */
  readonly serverPath: string | null;
  /** The file whose functions it offers; null for a server. */
  readonly program: string | null;
  /** What it was taken for, if it is no app of ours. */
  readonly takenFor: string | null;
  /** Odd, but no reason to stop. */
  readonly warnings: readonly string[];
};

/** Reads an app's folder and finds all that is wrong with it before anything is sent. */
export function readAppFolder(given: string | undefined, nameGiven?: string): AppFolder {
  const folder = path.resolve(given ?? ".");
  if (!existsSync(folder) || !statSync(folder).isDirectory()) {
    throw usage(`there is no folder ${given ?? folder}`, `millrace init ${given ?? "."}`);
  }
  const { config, warnings, cog } = loadAppConfig(folder);
  const program = config.customRuntime === null ? (cog?.file ?? "main.py") : null;
  if (program !== null && !existsSync(path.join(folder, program))) {
    throw usage(
      `${given ?? "this folder"} has no main.py and no cog.yaml, and its configuration starts no server`,
      `millrace init ${given ?? "."} creates an app; for a server, set runtime.custom.entrypoint in millrace.toml`,
    );
  }
  const name = nameGiven ?? config.deployment.name ?? asAppName(path.basename(folder));
  if (!APP_NAME.test(name)) throw badName(name);
  const { include, exclude } = config.deployment;
  const server = config.customRuntime;
  const serverPath = server && (server.readycheckEndpoint ?? server.healthcheckEndpoint ?? "/");
  const takenFor = cog && describeCog(cog, config);
  return { folder, name, patterns: { include, exclude }, serverPath, program, takenFor, warnings };
}

/** The files that go into the bundle; throws when functions are to be in a file that is left out. */
export async function bundleFilesOf({ folder, patterns, program }: AppFolder): Promise<BundleFile[]> {
  const files = await listBundleFiles(folder, patterns);
  if (program !== null && !files.some(({ name }) => name === program)) {
    throw usage(`include and exclude leave out ${program}`, "see [deployment] in millrace.toml");
  }
  return files;
}

/** The nearest thing to a folder's name that may be an app's. */
export function asAppName(folder: string): string {
  const plain = folder
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, 63);
  return plain.replaceAll(/^-+|-+$/g, "") || "app";
}

/** What to say of a name that no app can have. */
export function badName(name: string, option = "--name"): Error {
  return usage(
    `${JSON.stringify(name)} is not a valid app name: use up to 63 lower-case letters, digits and inner hyphens`,
    `choose another with ${option}`,
  );
}
