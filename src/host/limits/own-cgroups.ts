import path from "node:path";

/** The controllers that limits are made of. */
export const CONTROLLERS = ["memory", "cpu", "pids"] as const;
export type Controller = (typeof CONTROLLERS)[number];

/** The folders of the control groups that a process is in. */
export type OwnCgroups = {
  /** In the one hierarchy of version 2; null where there is none, or it cannot be seen. */
  readonly v2: string | null;
  /** In the hierarchy of each controller of version 1. */
  readonly v1: ReadonlyMap<Controller, string>;
};

type Mount = { readonly root: string; readonly point: string; readonly options: readonly string[] };

/** Finds them in what the kernel tells of a process: `/proc/self/cgroup` and `/proc/self/mountinfo`. */
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
    for (const controller of CONTROLLERS) {
      if (!names.split(",").includes(controller)) continue;
      const found = folderIn(
        mounts.v1.filter(({ options }) => options.includes(controller)),
        own,
      );
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

/** Where a group is found; null if no mount shows it, as in some containers. */
function folderIn(mounts: readonly Mount[], own: string): string | null {
  for (const { root, point } of mounts) {
    if (root === "/") return path.resolve(`${point}/${own}`);
    if (own === root || own.startsWith(`${root}/`)) return path.resolve(`${point}/${own.slice(root.length)}`);
  }
  return null;
}
