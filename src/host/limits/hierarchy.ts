import { mkdirSync, readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { randomName } from "../../kit/ids.ts";
import { countIn, processesIn, removeGroup, setValue } from "./cgroup-files.ts";
import type { LimitGroup, Limits } from "./limits.ts";
import type { Controller } from "./own-cgroups.ts";

/** One value to set, in the folder of that controller. */
type GroupValue = readonly [controller: Controller, file: string, value: string | number];

/** A version of control groups, as far as it differs from the other. */
export type Flavour = {
  readonly name: string;
  /** What to write for these limits. */
  values(limits: Limits): readonly GroupValue[];
  /** Files that a kernel may lack; without them a limit still holds. */
  readonly optional: ReadonlySet<string>;
  /** Where the memory controller counts processes that it has ended. */
  readonly oomFile: string;
};

/** A folder for the groups of one service, in the hierarchy of each controller. All are the same one in version 2. */
export class Hierarchy {
  readonly flavour: Flavour;
  readonly roots: ReadonlyMap<Controller, string>;

  constructor(flavour: Flavour, roots: ReadonlyMap<Controller, string>) {
    this.flavour = flavour;
    this.roots = roots;
  }

  /** Makes a group. Throws what the kernel says, and leaves nothing then. */
  make(limits: Limits): CgroupGroup {
    const name = `g-${randomName(12)}`;
    const folders = new Map(
      Array.from(this.roots, ([controller, root]) => [controller, path.join(root, name)]),
    );
    const group = new CgroupGroup(folders, this.flavour.oomFile);
    try {
      for (const folder of new Set(folders.values())) mkdirSync(folder);
      for (const [controller, file, value] of this.flavour.values(limits)) {
        const folder = folders.get(controller);
        if (folder !== undefined) this.#set(folder, file, value);
      }
    } catch (error) {
      void group.removed();
      throw error;
    }
    return group;
  }

  /** Removes groups that a service of the same data directory left behind when it was killed. */
  async clear(): Promise<void> {
    for (const root of new Set(this.roots.values())) await clearGroups(root);
  }

  /** Removes the folders themselves, once they are empty. */
  async remove(): Promise<void> {
    for (const root of new Set(this.roots.values())) await removeGroup(root);
  }

  #set(folder: string, file: string, value: string | number): void {
    try {
      setValue(folder, file, value);
    } catch (error) {
      if (!this.flavour.optional.has(file)) throw error;
    }
  }
}

/** Removes the groups in a folder, with all processes in them. */
export async function clearGroups(root: string): Promise<void> {
  let names: string[];
  try {
    names = readdirSync(root, { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? entry.name : [],
    );
  } catch {
    return; // There is none.
  }
  await Promise.all(names.map((name) => removeGroup(path.join(root, name))));
}

/** A group that the kernel keeps to its limits. */
export class CgroupGroup implements LimitGroup {
  readonly #folders: ReadonlySet<string>;
  readonly #memory: string | undefined;
  readonly #oomFile: string;
  #hasRunOut = false;
  #removed: Promise<void> | null = null;

  constructor(folders: ReadonlyMap<Controller, string>, oomFile: string) {
    this.#folders = new Set(folders.values());
    this.#memory = folders.get("memory");
    this.#oomFile = oomFile;
  }

  /** Left to other threads: now and then the kernel takes 5 ms for it (measured). */
  async add(pid: number): Promise<void> {
    try {
      for (const folder of this.#folders) await writeFile(path.join(folder, "cgroup.procs"), String(pid));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

  /** Whether a process is in it, in every hierarchy. */
  holds(pid: number): boolean {
    return [...this.#folders].every((folder) => processesIn(folder).includes(pid));
  }

  ranOut(): boolean {
    if (this.#memory !== undefined && this.#removed === null)
      this.#hasRunOut ||= countIn(this.#memory, this.#oomFile, "oom_kill") > 0;
    return this.#hasRunOut;
  }

  remove(): void {
    void this.removed();
  }

  /** Removes it; resolves when it is gone, or will not go. */
  removed(): Promise<void> {
    this.#removed ??= this.#leave();
    return this.#removed;
  }

  async #leave(): Promise<void> {
    await Promise.all(Array.from(this.#folders, removeGroup));
  }
}
