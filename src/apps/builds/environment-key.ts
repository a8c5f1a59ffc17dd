import { createHash } from "node:crypto";
import type { Interpreter } from "../../host/interpreter.ts";
import { hashPath } from "./bundle-files.ts";
import type { BundlePath, Requirements } from "./requirements.ts";

/** Changes when environments are made in another way. */
const MAKING = 2;

/**
 * The name of the environment that holds a project's packages: equal for the same Python, the same lines in any order
 * and the same contents of the files they name, whichever installer is at hand. To install a package may run its code,
 * so none is shared with another project.
 */
export async function environmentKey(
  projectId: string,
  requirements: Requirements,
  python: Interpreter,
): Promise<string> {
  const { packages, constraints, locals, links, flags } = requirements;
  const inputs = [
    MAKING,
    [process.platform, process.arch, python.version, python.path],
    packages,
    constraints,
    await Promise.all(locals.map(async (local) => [...(await named(local)), local.after])),
    await Promise.all(links.map(named)),
    flags,
  ];
  // Half of it is plenty, and keeps the first line of scripts short enough for every kernel.
  const hash = createHash("sha256").update(JSON.stringify(inputs)).digest("hex").slice(0, 32);
  return `${projectId}-${hash}`;
}

async function named({ name, fullPath }: BundlePath): Promise<string[]> {
  return [name, await hashPath(fullPath)];
}
