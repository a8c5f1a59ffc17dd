import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { app, catalogSites } from "./site.ts";

const sites = catalogSites();

verifies(
  "deploy.delete",
  "a deleted app is found by nobody, finishes what it holds, then nothing of it is left",
  async () => {
    const site = await sites();
    const one = "[scaling]\nmax_replicas = 1\nmin_replicas = 1\n";
    await site.deploy("app", app("zero", one));
    const { app: deployed, version } = await site.deploy("app", app("one", one));
    const running = site.value("app", "hold", { gate: "go" });
    const waiting = site.value("app");
    await site.catalog.remove(deployed);
    expect(site.catalog.find(site.projectId, "app")).toBeUndefined();
    expect(site.catalog.byNumber(deployed.number)?.target ?? null).toBeNull();
    expect(site.processes(version)).toBeGreaterThan(0);
    await expect(site.catalog.remove(deployed)).rejects.toMatchObject({ code: "app_not_found" });
    site.open("go");
    expect(await Promise.all([running, waiting])).toEqual(["one", "one"]);
    await until("its folders are gone", () => site.bundles("app").length === 0);
    expect(await site.store.versions.list(deployed.number)).toEqual([]);
  },
);

verifies(
  "deploy.delete",
  "a new app of the same name is a new app, while the old one still finishes",
  async () => {
    const site = await sites();
    const { app: old } = await site.deploy("app", app("old"));
    const running = site.value("app", "hold", { gate: "go" });
    await site.catalog.remove(old);
    const { app: young } = await site.deploy("app", app("young"));
    expect(young.number).not.toBe(old.number);
    expect(await site.value("app")).toBe("young");
    site.open("go");
    expect(await running).toBe("old");
    await until("the old folder is gone", () => site.bundles("app").length === 1);
    expect(await site.value("app")).toBe("young");
  },
);

test("a deploy of an app that was deleted meanwhile does not bring it back", async () => {
  const site = await sites();
  const { app: deployed } = await site.deploy("app", app("one"));
  const candidate = await site.prepare("app", app("two"));
  await site.catalog.remove(deployed);
  await expect(site.catalog.activate(candidate)).rejects.toMatchObject({ code: "app_not_found" });
  await candidate.discard();
  expect(site.catalog.find(site.projectId, "app")).toBeUndefined();
});
