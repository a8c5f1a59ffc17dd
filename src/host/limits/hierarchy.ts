import path from "node:path";
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { randomName } from "../../kit/ids.ts";
import { killNow } from "../processes.ts";
import type { LimitGroup, Limits } from "./limits.ts";
import { setTimeout as sleep } from "node:timers/promises";

export type GroupValue = readonly [controller: Controller, file: string, value: string | number];

/** What differs between the versions of control groups. */
export type Flavour = {
  readonly name: string;
  values(limits: Limits): readonly GroupValue[];
  /** Files that a kernel may lack. */
  readonly optional: ReadonlySet<string>;
  /** The file with the number of processes that ran out of memory. */
  readonly oomFile: string;
};

/** A folder for the groups of one service, for each controller; in version 2 it is a single one. */
export class Hierarchy {
  readonly flavour: Flavour;
  readonly roots: ReadonlyMap<Controller, string>;
  readonly #leaving = new Set<Promise<void>>();

  constructor(flavour: Flavour, roots: ReadonlyMap<Controller, string>) {
    this.flavour = flavour;
    this.roots = roots;
  }

  /** Makes a group. Throws the kernel's error, and leaves nothing then. */
  make(limits: Limits): CgroupGroup {
    const name = `g-${randomName(12)}`;
    const folders = new Map(Array.from(this.roots, ([each, root]) => [each, path.join(root, name)]));
    const group = new CgroupGroup(folders, this.flavour.oomFile, this.#leaving);
    try {
      for (const folder of new Set(folders.values())) mkdirSync(folder);
      for (const [controller, file, value] of this.flavour.values(limits)) {
        const folder = folders.get(controller);
        if (folder === undefined) continue;
        try {
          setValue(folder, file, value);
        } catch (error) {
          if (!this.flavour.optional.has(file)) throw error;
        }
      }
    } catch (error) {
      group.remove();
      throw error;
    }
    return group;
  }

  /** Removes groups that a service of the same data directory left behind when it was killed. */
  async clear(): Promise<void> {
    for (const root of new Set(this.roots.values())) await clearGroups(root);
  }

  /** Removes the folders themselves, after the groups that are being removed. */
  async remove(): Promise<void> {
    await Promise.all(this.#leaving);
    for (const root of new Set(this.roots.values())) await removeGroup(root);
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

class CgroupGroup implements LimitGroup {
  readonly #folders: ReadonlySet<string>;
  readonly #memory: string | undefined;
  readonly #oomFile: string;
  #hasRunOut = false;
  readonly #leaving: Set<Promise<void>>;
  #removed: Promise<void> | null = null;

  constructor(folders: ReadonlyMap<Controller, string>, oomFile: string, leaving: Set<Promise<void>>) {
    this.#leaving = leaving;
    this.#folders = new Set(folders.values());
    this.#memory = folders.get("memory");
    this.#oomFile = oomFile;
  }

  /** Asynchronous, because the kernel sometimes takes 5 ms (measured). */
  async add(pid: number): Promise<void> {
    try {
      for (const folder of this.#folders) await writeFile(path.join(folder, "cgroup.procs"), String(pid));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

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

  /** Removes it; resolves when it is gone, or cannot be removed. */
  removed(): Promise<void> {
    if (this.#removed) return this.#removed;
    const gone: Promise<void> = Promise.all(Array.from(this.#folders, removeGroup)).then(
      () => void this.#leaving.delete(gone),
    );
    this.#leaving.add(gone);
    this.#removed = gone;
    return gone;
  }
}

export const CONTROLLERS = ["memory", "cpu", "pids"] as const;
export type Controller = (typeof CONTROLLERS)[number];

/** The folders of the control groups that a process is in. */
export type OwnCgroups = {
  /** In the hierarchy of version 2; null if there is none, or it is not visible. */
  readonly v2: string | null;
  readonly v1: ReadonlyMap<Controller, string>;
};

type Mount = { readonly root: string; readonly point: string; readonly options: readonly string[] };

/** Finds them in the contents of `/proc/self/cgroup` and `/proc/self/mountinfo`. */
export function findOwnCgroups(cgroup: string, mountinfo: string): OwnCgroups {
  const mounts = { v1: mountsOf(mountinfo, "cgroup"), v2: mountsOf(mountinfo, "cgroup2") };
  const v1 = new Map<Controller, string>();
  let v2: string | null = null;
  for (const line of cgroup.split("\n")) {
    const [number, names = "", ...rest] = line.split(":");
    const own = rest.join(":");
    if (number === "0" && names === "") {
      v2 = folderIn(mounts.v2, own);
      continue;
    }
    for (const controller of CONTROLLERS.filter((each) => names.split(",").includes(each))) {
      const showing = mounts.v1.filter(({ options }) => options.includes(controller));
      const found = folderIn(showing, own);
      if (found !== null) v1.set(controller, found);
    }
  }
  return { v2, v1 };
}

function mountsOf(mountinfo: string, type: string): Mount[] {
  return mountinfo.split("\n").flatMap((line) => {
    const [before = "", after = ""] = line.split(" - ");
    const [found, , options = ""] = after.split(" ");
    const [, , , root, point] = before.split(" ");
    if (found !== type || root === undefined || point === undefined) return [];
    return [{ root, point, options: options.split(",") }];
  });
}

/** The folder of a group; null if no mount shows it, as in some containers. */
function folderIn(mounts: readonly Mount[], own: string): string | null {
  for (const { root, point } of mounts) {
    if (root === "/") return path.resolve(`${point}/${own}`);
    if (own === root || own.startsWith(`${root}/`)) return path.resolve(`${point}/${own.slice(root.length)}`);
  }
  return null;
}

/** A killed process takes a moment to leave its group. */
const PAUSE_MS = 20;
/** Two seconds: the next start removes the rest. */
const MAX_ROUNDS = 100;

export function setValue(folder: string, file: string, value: string | number): void {
  writeFileSync(path.join(folder, file), String(value));
}

/** The processes in a group; none if it does not exist. */
export function processesIn(folder: string): number[] {
  try {
    const words = readFileSync(path.join(folder, "cgroup.procs"), "latin1").split("\n");
    // 0 is a process outside of this namespace.
    return words.map(Number).filter((pid) => pid > 0);
  } catch {
    return [];
  }
}

/** A number that a group counts, in a file of lines such as `oom_kill 2`; 0 if it cannot be read. */
function countIn(folder: string, file: string, name: string): number {
  try {
    const text = readFileSync(path.join(folder, file), "latin1");
    const line = text.split("\n").find((each) => each.startsWith(`${name} `));
    return Number(line?.slice(name.length + 1) ?? 0);
  } catch {
    return 0;
  }
}

/** Ends every process in a group and removes it; returns whether it is gone. */
export async function removeGroup(folder: string): Promise<boolean> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    try {
      rmdirSync(folder);
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return true;
      if (code !== "EBUSY") return false;
    }
    for (const pid of processesIn(folder)) if (pid !== process.pid) killNow(pid);
    await sleep(PAUSE_MS);
  }
  return false;
}
