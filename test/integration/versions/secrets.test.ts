import path from "node:path";
import { expect } from "vitest";
import { WHOLE_PROJECT } from "../../../src/apps/secrets.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { app, type CatalogSite, catalogSites } from "./site.ts";

const sites = catalogSites();

const placeOf = ({ projectId }: CatalogSite) => ({ projectId, appNumber: WHOLE_PROJECT });

/** Puts secrets in place and has the catalogue know. */
async function give(site: CatalogSite, appNumber: number, map: Record<string, string>): Promise<void> {
  await site.secrets.replace({ ...placeOf(site), appNumber }, map);
  await site.catalog.refreshSecrets(site.projectId, appNumber === WHOLE_PROJECT ? null : appNumber);
}

/** Variables as a replica of the app sees them, one call after the other: one replica is enough. */
async function values(site: CatalogSite, name: string, names: readonly string[]): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const one of names) found.push(await site.value(name, "env", { name: one }));
  return found;
}

for (const fork of ["auto", "never"]) {
  verifies(
    ["deploy.secrets", "app.env.secrets", "secrets.next-start"],
    `secrets are in the environment of replicas that start after the change (fork = "${fork}")`,
    async () => {
      const site = await sites();
      await site.secrets.replace(placeOf(site), { SHARED: "project", OWN: "project" });
      const toml = `[deployment]\nfork = "${fork}"\n[scaling]\nmax_replicas = 2\n`;
      const later = "def later(gate):\n    hold(gate)\n    return os.environ.get('OWN')\n";
      const { app: deployed, pool } = await site.deploy("app", app("one", toml, later));
      expect(await values(site, "app", ["SHARED", "OWN"])).toEqual(["project", "project"]);
      const calls = [site.value("app", "later", { gate: "go" })];
      await give(site, deployed.number, { OWN: "app" });
      // The living one keeps its own; the next one gets the new ones though that one's template is there.
      calls.push(site.value("app", "later", { gate: "go" }));
      await until(
        "two are busy",
        () => [...pool.replicas].filter(({ calls }) => calls.size > 0).length === 2,
      );
      site.open("go");
      expect(await Promise.all(calls)).toEqual(["project", "app"]);
      await give(site, WHOLE_PROJECT, {});
      await site.close();
      await site.start();
      expect(await values(site, "app", ["SHARED", "OWN"])).toEqual([null, "app"]);
    },
  );
}

verifies(
  "fork.secrets",
  "a change ends templates that have no replica, and another app's are left alone",
  async () => {
    const site = await sites();
    const toml = "[scaling]\ncooldown = 0\n";
    const one = await site.deploy("one", app("one", toml));
    const two = await site.deploy("two", app("two", toml));
    const isKept = ({ version, pool }: typeof one): boolean =>
      pool.replicas.size === 0 && site.processes(version) === 2;
    await until("only templates are left", () => isKept(one) && isKept(two));
    await give(site, one.app.number, { KEY: "new" });
    await until("the template is gone", () => site.processes(one.version) === 0);
    expect(isKept(two)).toBe(true);
    expect(await values(site, "one", ["KEY"])).toEqual(["new"]);
    expect(await values(site, "two", ["KEY"])).toEqual([null]);
  },
);

verifies(
  "deploy.secrets",
  "a secret may replace any variable of the app but the place of its storage",
  async () => {
    const site = await sites();
    await site.secrets.replace(placeOf(site), {
      HF_HOME: "/models",
      PATH: "/bin",
      PERSISTENT_STORAGE: "/elsewhere",
    });
    await site.deploy("app", app("one"));
    const storage = path.join(site.dataDir, "storage", site.projectId);
    expect(await values(site, "app", ["HF_HOME", "PATH", "PERSISTENT_STORAGE"])).toEqual([
      "/models",
      "/bin",
      storage,
    ]);
  },
);

verifies("deploy.storage", "persistent storage is the project's, whatever version or app runs", async () => {
  const site = await sites();
  const write = "open(os.path.join(os.environ['PERSISTENT_STORAGE'], 'note'), 'w').write('kept')\n";
  const read =
    "NOTE = open(os.path.join(os.environ['PERSISTENT_STORAGE'], 'note')).read()\ndef note(): return NOTE\n";
  await site.deploy("app", app("one", "", write));
  await site.deploy("app", app("two", "", read));
  await site.deploy("other", app("one", "", read));
  expect([await site.value("app", "note"), await site.value("other", "note")]).toEqual(["kept", "kept"]);
  const [home] = await values(site, "app", ["HF_HOME"]);
  expect(home).toBe(path.join(site.dataDir, "storage", site.projectId, ".cache", "huggingface"));
});

verifies(
  "secrets.next-start",
  "an app that goes and comes back gets the secrets that were changed meanwhile",
  async () => {
    const site = await sites();
    const toml = "[scaling]\nmax_replicas = 2\n";
    const later = "def later(gate):\n    hold(gate)\n    return os.environ.get('OWN')\n";
    const { number } = (await site.deploy("app", app("one", toml, later))).app;
    await give(site, number, { OWN: "first" });
    await site.catalog.letGo(number);
    // Nobody told of it.
    await site.secrets.replace({ ...placeOf(site), appNumber: number }, { OWN: "second" });
    await site.catalog.refreshAllSecrets();
    // One that stands by has the second, whoever starts after the next change the third.
    await site.catalog.warm(number, 1);
    await give(site, number, { OWN: "third" });
    expect(await site.catalog.open(number)).toBe(true);
    const { pool } = await site.current("app");
    const calls = [1, 2].map(() => site.value("app", "later", { gate: "go" }));
    await until(
      "two are busy",
      () => [...pool.replicas].filter(({ calls: busy }) => busy.size > 0).length === 2,
    );
    site.open("go");
    expect(new Set(await Promise.all(calls))).toEqual(new Set(["second", "third"]));
  },
);
