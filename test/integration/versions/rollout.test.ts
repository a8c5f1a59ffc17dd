import { expect } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { CatalogSite, NEVER, PROJECT, app } from "./site.ts";

/** Of so many calls, how many each version gets. */
function shares(site: CatalogSite, calls: number): Record<string, number> {
  const counts: Record<string, number> = {};
  for (let i = 0; i < calls; i++) {
    const id = site.catalog.find(PROJECT, "app")?.version.id ?? "none";
    counts[id] = (counts[id] ?? 0) + 1;
  }
  return counts;
}

const slowly = (seconds: number) => `[scaling]\nroll_out_duration_seconds = ${seconds}\n`;

verifies(
  "deploy.rollout",
  "calls move in 5 steps over roll_out_duration_seconds, then all of them",
  async () => {
    const site = await CatalogSite.open();
    const { version: one } = await site.deploy("app", app("one"));
    const { version: two } = await site.deploy("app", app("two", slowly(2)));
    const seen: number[] = [];
    await until("every call goes to the new version", () => {
      const share = (shares(site, 50)[two.id] ?? 0) / 10;
      if (seen.at(-1) !== share) seen.push(share);
      return share === 5;
    });
    expect(seen).toEqual([1, 2, 3, 4, 5]);
    await until("the old one has no process", () => site.processes(one) === 0);
    expect((await site.app("app")).currentVersionId).toBe(two.id);
  },
);

verifies(
  "deploy.rollout",
  "the next deploy, or a way back, ends a rollout; a change of scaling does not",
  async () => {
    const site = await CatalogSite.open();
    const { version: one, pool } = await site.deploy("app", app("one"));
    const { version: two } = await site.deploy("app", app("two", slowly(600)));
    expect(shares(site, 10)).toEqual({ [one.id]: 8, [two.id]: 2 });
    await site.catalog.changeScaling(await site.app("app"), { replicaConcurrency: 2 });
    expect(shares(site, 10)).toEqual({ [one.id]: 8, [two.id]: 2 });
    expect(await site.catalog.rollBack(await site.app("app"), one.id)).toMatchObject({ pool });
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
