import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "vitest";
import { HostLimits, lookAtLimits } from "../../../src/host/limits/host-limits.ts";
import { describeEnforced, type LimitName } from "../../../src/host/limits/limits.ts";
import { WALL_LEVELS, type WallLevel } from "../../../src/host/walls/walls.ts";
import type { Engine } from "../../../src/engines/engine.ts";
import { processEngine } from "../../../src/engines/local/engine.ts";
import type { ProcessHost } from "../../../src/engines/local/host.ts";

/** What a replica's memory can be limited by. */
export const MEANS = ["control groups", "watcher"] as const;

const SETTINGS = { dataDir: "/nonexistent", maxScratchBytes: 1e10, maxProjectStorageBytes: null };

/** Skips the test, and says so, where the host gives no control groups for a limit. */
export async function requireCgroups(name: LimitName, context: TestContext): Promise<void> {
  const enforced = (await lookAtLimits(SETTINGS, null))[name];
  if ("by" in enforced && enforced.by.startsWith("cgroup")) return;
  const why = describeEnforced(enforced);
  process.stderr.write(`\nNOT TESTED: this host gives no control groups for ${name}: ${why}\n`);
  context.skip(`this host gives no control groups for ${name}: ${why}`);
}

/** The usual engine on a host without control groups. */
export function withoutCgroups(host: ProcessHost): Engine {
  const found = { hierarchy: null, lacking: new Map() };
  return processEngine({ ...host, limits: new HostLimits(found, SETTINGS, host.level) });
}

/** The groups that a service has made for its apps, in all hierarchies. */
export function groupsOf(dataDir: string): string[] {
  const roots = JSON.parse(readFileSync(path.join(dataDir, "limit-groups.json"), "utf8")) as string[];
  return roots
    .filter((root) => existsSync(root))
    .flatMap((root) => readdirSync(root, { withFileTypes: true }).map((entry) => ({ root, entry })))
    .filter(({ entry }) => entry.isDirectory())
    .map(({ root, entry }) => path.join(root, entry.name));
}

/** The levels at which an app cannot write the files of control groups. */
export const CLOSED_LEVELS: readonly WallLevel[] = WALL_LEVELS.filter((level) => level !== "process");
