import { expect } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { app, type CatalogSite, catalogSites, NEVER } from "./site.ts";

const sites = catalogSites();

/** Of so many calls, how many each version gets. */
function shares(site: CatalogSite, calls: number): Record<string, number> {
  const counts: Record<string, number> = {};
  for (let i = 0; i < calls; i++) {
    const id = site.catalog.find(site.projectId, "app")?.version.id ?? "none";
    counts[id] = (counts[id] ?? 0) + 1;
  }
  return counts;
}

const slowly = (seconds: number) => `[scaling]\nroll_out_duration_seconds = ${seconds}\n`;

verifies(
  "deploy.rollout",
  "calls move in 5 steps over roll_out_duration_seconds, then all of them",
  async () => {
    const site = await sites();
    const { version: one } = await site.deploy("app", app("one"));
    const { version: two } = await site.deploy("app", app("two", slowly(400)));
    const seen: unknown[] = [];
    for (let step = 0; step < 5; step++) {
      seen.push(shares(site, 50)[two.id]);
      site.clock.skip(90_000);
      // Not a step before its time.
      expect(shares(site, 50)[two.id]).toBe(seen.at(-1));
      site.clock.skip(10_000);
    }
    expect(seen).toEqual([10, 20, 30, 40, 50]);
    await until("the old one has no process", () => site.processes(one) === 0);
    expect((await site.app("app")).currentVersionId).toBe(two.id);
  },
);

verifies(
  "deploy.rollout",
  "the next deploy, or a way back, ends a rollout; a change of scaling does not",
  async () => {
    const site = await sites();
    const { version: one, pool } = await site.deploy("app", app("one"));
    const { version: two } = await site.deploy("app", app("two", slowly(600)));
    expect(shares(site, 10)).toEqual({ [one.id]: 8, [two.id]: 2 });
    await site.catalog.switcher.changeScaling(await site.app("app"), { replicaConcurrency: 2 });
    expect(shares(site, 10)).toEqual({ [one.id]: 8, [two.id]: 2 });
    expect(await site.catalog.switcher.rollBack(await site.app("app"), one.id)).toMatchObject({ pool });
    expect(shares(site, 10)).toEqual({ [one.id]: 10 });
    expect(await site.value("app")).toBe("one");
    const three = await site.prepare("app", app("three", slowly(600)));
    await three.check(NEVER);
    await site.catalog.activate(three);
    expect(shares(site, 10)).toEqual({ [one.id]: 8, [three.version.id]: 2 });
    const { version: four } = await site.deploy("app", app("four"));
    expect(shares(site, 10)).toEqual({ [four.id]: 10 });
  },
);
