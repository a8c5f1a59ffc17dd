import path from "node:path";

/** Where the files of a deploy lie, below the data directory. */
export class DeployFolders {
  readonly #dataDir: string;

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
  }

  /** What arrives. */
  get uploads(): string {
    return path.join(this.#dataDir, "uploads");
  }

  /** What is being made. */
  get work(): string {
    return path.join(this.#dataDir, "work");
  }

  workOf(buildId: string): string {
    return path.join(this.work, buildId);
  }

  /** The bundle of a version, for good. */
  bundleOf(app: { readonly projectId: string; readonly name: string }, versionId: string): string {
    return path.join(this.#dataDir, "bundles", app.projectId, app.name, versionId);
  }
}
