import path from "node:path";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

/** The id of a bundle or environment: its path below the data directory, so it stays valid when that directory is moved. */
export function artifactId(folder: string, dataDir: string): string {
  const id = path.relative(dataDir, folder);
  if (id === "" || id.startsWith("..") || path.isAbsolute(id)) {
    throw new Error(`${folder} is not in the data directory ${dataDir}`);
  }
  return id;
}

export function artifactFolder(id: string, dataDir: string): string {
  return path.resolve(dataDir, id);
}

/** The folders of a version, as ids or as paths; the environment is null if it has no packages. */
type Artifacts = { readonly bundle: string; readonly environment: string | null };

export function artifactFolders({ bundle, environment }: Artifacts, dataDir: string): Artifacts {
  return {
    bundle: artifactFolder(bundle, dataDir),
    environment: environment === null ? null : artifactFolder(environment, dataDir),
  };
}

export function storageFolder(projectId: string, dataDir: string): string {
  return path.join(dataDir, "storage", projectId);
}

/** The permanent id of a data directory, which tells its builds apart. A backup omits it: a restored directory is another one. */
export function directoryId(dataDir: string): string {
  const file = path.join(dataDir, "directory-id");
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const id = randomUUID();
  writeFileSync(file, `${id}\n`, { mode: 0o600 });
  return id;
}
