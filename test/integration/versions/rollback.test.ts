import { rm } from "node:fs/promises";
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { app, catalogSites } from "./site.ts";

const sites = catalogSites();

verifies(
  "deploy.rollback",
  "an earlier version serves again when it is ready, also after a restart",
  async () => {
    const site = await sites();
    const { version: one, pool } = await site.deploy("app", app("one"));
    const { version: two } = await site.deploy("app", app("two"));
    const back = await site.catalog.switcher.rollBack(await site.app("app"), one.id);
    // Its own replicas, if they are still there, or others: warm in any case.
    expect([back.pool, back.pool.readyCount]).toEqual([pool, 1]);
    expect(await site.value("app")).toBe("one");
    await site.close();
    await site.start();
    expect((await site.current("app")).version.id).toBe(one.id);
    expect(site.processes(one) + site.processes(two)).toBe(0);
    await site.catalog.switcher.rollBack(await site.app("app"), two.id);
    expect((await site.current("app")).pool.readyCount).toBe(1);
    expect(await site.value("app")).toBe("two");
  },
);

test("a version that is gone, of another app, or that cannot start changes nothing", async () => {
  const site = await sites();
  const { version: one } = await site.deploy("app", app("one"));
  await site.deploy("app", app("two"));
  const { version: other } = await site.deploy("other", app("other"));
  for (const id of [randomUUID(), other.id]) {
    await expect(site.catalog.switcher.rollBack(await site.app("app"), id)).rejects.toMatchObject({
      code: "build_not_found",
    });
  }
  await site.close();
  await rm(site.bundleDir(one), { recursive: true });
  await site.start();
  await expect(site.catalog.switcher.rollBack(await site.app("app"), one.id)).rejects.toMatchObject({
    code: "app_not_ready",
  });
  expect(await site.value("app")).toBe("two");
  const live = await site.current("app");
  await until("nothing of it is left", () => {
    const others = site.catalog.versions(live.app.number).filter(({ pool }) => pool !== live.pool);
    return others.every(({ pool }) => pool.replicas.size === 0);
  });
});
