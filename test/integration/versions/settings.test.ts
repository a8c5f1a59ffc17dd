import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { app, catalogSites, valueOf } from "./site.ts";

const sites = catalogSites();

const TOML = "[scaling]\nmin_replicas = 1\nmax_replicas = 1\ncooldown = 3600\n";

verifies(
  "deploy.settings",
  "replicas, cooldown and time limit change in place, and the change stays",
  async () => {
    const site = await sites();
    const { pool, version } = await site.deploy("app", app("one", TOML));
    await until("one is ready", () => pool.readyCount === 1);
    const running = site.call("app", "hold", { gate: "never" });
    const change = await site.catalog.switcher.changeScaling(await site.app("app"), {
      minReplicas: 3,
      maxReplicas: 4,
    });
    expect([change.pool, change.version.id]).toEqual([pool, version.id]);
    await until("three are ready", () => pool.readyCount === 3);
    // The idle ones have been so for less than an hour, but for longer than the new cooldown.
    await site.catalog.switcher.changeScaling(await site.app("app"), { minReplicas: 0, cooldownSeconds: 0 });
    await until("only the busy one is left", () => pool.replicas.size === 1);
    await site.catalog.switcher.changeScaling(await site.app("app"), { responseGracePeriodSeconds: 100 });
    site.clock.skip(100_000);
    expect(await running).toEqual({ kind: "timed_out", afterMs: 100_000 });
    await site.close();
    await site.start();
    const { version: stored } = await site.current("app");
    const expected = { minReplicas: 0, maxReplicas: 4, cooldownSeconds: 0, responseGracePeriodSeconds: 100 };
    expect(stored.overrides).toEqual(expected);
    expect(stored.config.scaling).toMatchObject(expected);
  },
);

verifies(
  "deploy.settings",
  "another replica_concurrency comes with other replicas, without a failed call",
  async () => {
    const site = await sites();
    const first = await site.deploy("app", app("one", TOML));
    const before = site.call("app", "hold", { gate: "go" });
    const change = await site.catalog.switcher.changeScaling(await site.app("app"), {
      replicaConcurrency: 3,
    });
    expect(change.version.id).toBe(first.version.id);
    const after = [1, 2, 3].map(() => site.call("app", "hold", { gate: "go" }));
    const held = (): number => [...change.pool.replicas].reduce((sum, { calls }) => sum + calls.size, 0);
    await until("one replica has three calls", () => held() === 3);
    expect(change.pool.replicas.size).toBe(1);
    site.open("go");
    const outcomes = await Promise.all([before, ...after]);
    expect(outcomes.map(valueOf)).toEqual(["one", "one", "one", "one"]);
    await until("the first replica is gone", () => first.pool.replicas.size === 0);
  },
);

test("a new deploy starts from its own configuration", async () => {
  const site = await sites();
  await site.deploy("app", app("one", TOML));
  await site.catalog.switcher.changeScaling(await site.app("app"), { cooldownSeconds: 7, minReplicas: 0 });
  const { version } = await site.deploy("app", app("two", TOML));
  expect([version.overrides, version.config.scaling.cooldownSeconds]).toEqual([null, 3600]);
});

test("settings under which the app cannot start are not taken", async () => {
  const site = await sites();
  const once = "if os.path.exists('started'): raise ValueError('only once')\nopen('started', 'w').close()\n";
  const { pool, version } = await site.deploy("app", app("one", TOML, once));
  await until("one is ready", () => pool.readyCount === 1);
  const change = site.catalog.switcher.changeScaling(await site.app("app"), { replicaConcurrency: 2 });
  await expect(change).rejects.toMatchObject({ code: "app_not_ready", message: "ValueError: only once" });
  expect((await site.current("app")).pool).toBe(pool);
  expect((await site.store.versions.find(version.id))?.overrides).toBeNull();
  expect([await site.value("app"), site.catalog.versions(version.appNumber)]).toMatchObject([
    "one",
    [{ pool }],
  ]);
});
