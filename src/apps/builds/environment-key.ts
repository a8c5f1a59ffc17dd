import { createHash } from "node:crypto";
import { hashPath } from "./bundle-files.ts";
import type { BundlePath, Requirements } from "./requirements.ts";

/** Changes when environments are made in another way. */
const MAKING = 2;

/**
 * The name of the environment that holds a project's packages: equal if what it runs on is the same, a Python or an
 * image, and the lines in any order, and the contents of the files they name, whichever installer is at hand. To install
 * a package may run its code, so none is shared with another project.
 */
export async function environmentKey(
  projectId: string,
  requirements: Requirements,
  runsOn: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const { packages, constraints, locals, links, flags } = requirements;
  const inputs = [
    MAKING,
    runsOn,
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
