import path from "node:path";
import { chmod, chownTree, lchown, readdir } from "../../kit/files.ts";

/**
 * Gives a project's bundles and packages to its user, as a build on this level would have: of what was deployed on
 * another level, an app could not read what only its owner may, nor write where it did before. No app may run yet.
 */
export async function giveDeployed(dataDir: string, projectId: string, user: number): Promise<void> {
  const bundles = path.join(dataDir, "bundles", projectId);
  for (const app of await namesIn(bundles)) await chownTree(path.join(bundles, app), user);
  const environments = path.join(dataDir, "environments");
  for (const name of await namesIn(environments)) {
    if (!name.startsWith(`${projectId}-`)) continue;
    const environment = path.join(environments, name);
    await chownTree(environment, user);
    // The service writes its marker there.
    await lchown(environment, 0, 0);
    await chmod(environment, 0o755);
  }
}

async function namesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []); // There is none yet.
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
