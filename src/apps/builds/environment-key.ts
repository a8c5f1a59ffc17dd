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
  signal: AbortSignal,
): Promise<string> {
  const { packages, constraints, locals, links, flags } = requirements;
  const inputs = [
    MAKING,
    [process.platform, process.arch, python.version, python.path],
    packages,
    constraints,
    await oneByOne(locals, async (local) => [...(await named(local, signal)), local.after]),
    await oneByOne(links, async (each) => await named(each, signal)),
    flags,
  ];
  // Half of it is plenty, and keeps the first line of scripts short enough for every kernel.
  const hash = createHash("sha256").update(JSON.stringify(inputs)).digest("hex").slice(0, 32);
  return `${projectId}-${hash}`;
}

async function named({ name, fullPath }: BundlePath, signal: AbortSignal): Promise<string[]> {
  return [name, await hashPath(fullPath, signal)];
}

/** Each has a file open, and there may be as many as lines. */
async function oneByOne<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<string[]>,
): Promise<string[][]> {
  const done: string[][] = [];
  for (const item of items) done.push(await work(item));
  return done;
}
