import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openV2, V1, V2 } from "../../../../src/host/limits/cgroup-versions.ts";
import { CONTROLLERS, findOwnCgroups, Hierarchy } from "../../../../src/host/limits/hierarchy.ts";
import { verifies } from "../../../verifies.ts";

/** A stand-in for a group of version 2: plain files by the kernel's names, which keep what was written last. */
function standIn(files: Record<string, string>): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-cgroup-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  return folder;
}

const read = (...names: string[]): string => readFileSync(path.join(...names), "utf8");

verifies(
  "walls.limits.groups",
  "the service moves into a leaf and hands controllers down (on a stand-in)",
  () => {
    const own = standIn({ "cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.procs": "17\n" });
    const root = openV2(own, "millrace-1", (pid) => pid === 17);
    expect(root).toBe(path.join(own, "millrace-1"));
    expect(read(own, "millrace-service", "cgroup.procs")).toBe("17");
    for (const folder of [own, root])
      expect(read(folder, "cgroup.subtree_control")).toBe("+memory +cpu +pids");
  },
);

verifies(
  "walls.limits.groups",
  "a service that was restarted finds the group above its leaf (on a stand-in)",
  () => {
    const own = standIn({ "cgroup.controllers": "cpu memory pids\n", "cgroup.procs": "" });
    mkdirSync(path.join(own, "millrace-service"));
    expect(openV2(path.join(own, "millrace-service"), "millrace-1", () => true)).toBe(
      path.join(own, "millrace-1"),
    );
  },
);

verifies(
  "walls.limits.groups",
  "a group without controllers, or with processes of others, is let alone",
  () => {
    const bare = standIn({ "cgroup.controllers": "pids\n", "cgroup.procs": "17\n" });
    expect(() => openV2(bare, "millrace-1", () => true)).toThrow("no controllers memory, cpu");
    const shared = standIn({ "cgroup.controllers": "cpu memory pids\n", "cgroup.procs": "17\n18\n" });
    expect(() => openV2(shared, "millrace-1", (pid) => pid === 17)).toThrow("processes of others");
  },
);

verifies("walls.limits.groups", "limits are written as the kernel reads them (on a stand-in)", async () => {
  const root = standIn({});
  const hierarchy = new Hierarchy(V2, new Map(CONTROLLERS.map((controller) => [controller, root])));
  const limits = { memoryBytes: 512_000_000, cpus: 0.25, cpuShare: 0.25 };
  const group = hierarchy.make(limits);
  await group.add(17);
  const [name = ""] = readdirSync(root);
  const folder = path.join(root, name);
  expect(read(folder, "memory.max")).toBe("512000000");
  expect(read(folder, "memory.swap.max")).toBe("0");
  expect(read(folder, "memory.oom.group")).toBe("1");
  expect(read(folder, "cpu.max")).toBe("25000 100000");
  expect(read(folder, "cpu.weight")).toBe("13");
  expect(read(folder, "pids.max")).toBe("4096");
  expect(read(folder, "cgroup.procs")).toBe("17");
  expect(group.ranOut()).toBe(false);
  writeFileSync(path.join(folder, "memory.events"), "low 0\noom 1\noom_kill 1\noom_group_kill 1\n");
  expect(group.ranOut()).toBe(true);
});

test("what an app does not name is a share and no limit", () => {
  const files = (flavour: typeof V1): string[] =>
    flavour
      .values({ memoryBytes: null, cpus: null, cpuShare: 2 })
      .map(([, file, value]) => `${file}=${value}`);
  expect(files(V2)).toEqual(["cpu.weight=100", "pids.max=4096"]);
  expect(files(V1)).toEqual(["cpu.shares=1024", "pids.max=4096"]);
});

const V1_MOUNTS = `
30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 /docker/abc /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids
33 25 0:29 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw`;

test("own groups are found in both versions, and below the root of a mount", () => {
  const told = "9:memory:/a/b\n8:cpu,cpuacct:/\n7:pids:/docker/abc/x\n1:name=systemd:/\n0::/user:1\n";
  const { v1, v2 } = findOwnCgroups(told, V1_MOUNTS);
  expect(v2).toBe("/sys/fs/cgroup/unified/user:1");
  expect([...v1]).toEqual([
    ["memory", "/sys/fs/cgroup/memory/a/b"],
    ["cpu", "/sys/fs/cgroup/cpu,cpuacct"],
    ["pids", "/sys/fs/cgroup/pids/x"],
  ]);
});

test("a group that no mount shows is none", () => {
  const { v1, v2 } = findOwnCgroups(
    "7:pids:/elsewhere\n0::/\n",
    V1_MOUNTS.split("\n").slice(0, 4).join("\n"),
  );
  expect([...v1]).toEqual([]);
  expect(v2).toBeNull();
});
