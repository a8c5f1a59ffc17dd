import path from "node:path";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

/**
 * The id of a folder that the service keeps, a bundle or an environment: its path from the data directory on. It
 * stays true when the directory is moved, and is what the database and a workload know of the folder.
 */
export function artifactId(folder: string, dataDir: string): string {
  const id = path.relative(dataDir, folder);
  // It would be lost as soon as the data directory is moved.
  if (id === "" || id.startsWith("..") || path.isAbsolute(id)) {
    throw new Error(`${folder} is not in the data directory ${dataDir}`);
  }
  return id;
}

/** Where the folder with that id is on this machine. */
export function artifactFolder(id: string, dataDir: string): string {
  return path.resolve(dataDir, id);
}

/** What a version is made of, by ids or by folders. */
type Artifacts = {
  readonly bundle: string;
  /** Null when it has no packages. */
  readonly environment: string | null;
};

/** Where what a version is made of is on this machine. */
export function artifactFolders({ bundle, environment }: Artifacts, dataDir: string): Artifacts {
  return {
    bundle: artifactFolder(bundle, dataDir),
    environment: environment === null ? null : artifactFolder(environment, dataDir),
  };
}

/** Where the persistent storage of a project is on this machine. */
export function storageFolder(projectId: string, dataDir: string): string {
  return path.join(dataDir, "storage", projectId);
}

/**
 * The name that a data directory keeps wherever it is moved to; made when it is first asked for. Services that
 * share a database tell by it whose builds are whose. A backup leaves it out: what is restored is another directory.
 */
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
