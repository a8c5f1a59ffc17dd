import path from "node:path";
import type { Hierarchy } from "../../src/host/limits/hierarchy.ts";
import { tryGroup as attempt } from "../../src/host/limits/try-group.ts";

export { isOurs } from "../../src/host/limits/try-group.ts";

// Takes the place of `src/host/limits/try-group.ts` where a service starts (vitest.config.ts). Where one has tried
// groups with a process of its own, the next need not: what is refused is tried by each.

const tried = new Set<string>();

export async function tryGroup(hierarchy: Hierarchy): Promise<void> {
  const places = Array.from(hierarchy.roots, ([controller, root]) => [controller, path.dirname(root)]);
  const key = JSON.stringify([hierarchy.flavour.name, places]);
  if (tried.has(key)) return;
  await attempt(hierarchy);
  tried.add(key);
}
