import { copyFileSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, Site, ledger, letGo, submit } from "./site.ts";

const databases = testDatabases();

/** Another place on the database of the first, with its bundles or without. */
function beside(first: Site, hasBundles: boolean): Site {
  const site = new Site({});
  mkdirSync(site.dataDir);
  copyFileSync(path.join(first.dataDir, "master.key"), path.join(site.dataDir, "master.key"));
  const bundles = path.join(first.dataDir, "bundles");
  mkdirSync(bundles, { recursive: true });
  if (hasBundles) symlinkSync(bundles, path.join(site.dataDir, "bundles"));
  return site;
}

/** Deploys an app and stops its service under a run of it; returns what finds that run. */
async function leaveRun(first: TestService, second: TestService) {
  const { app } = await first.deploy("late", { main: MAIN, toml: ONE });
  const id = await submit(first, "late", { n: 1 }, { functionName: "hold" });
  await until("it runs", () => ledger(first, "late").length === 1);
  await first.service.stop(0);
  letGo(first, "late");
  return async () => (await second.service.store.runs.find({ appNumber: app.number, id }))?.state;
}

verifies("shared.late-apps", "a service ends the runs of an app that was deployed beside it", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const site = new Site({});
  const first = await site.start({ flags: { databaseUrl } });
  const second = await beside(site, true).start({ flags: { databaseUrl } });
  const stateOf = await leaveRun(first, second);
  await until("it has ended", async () => (await stateOf()) === "success");
  expect(ledger(first, "late")).toEqual(["1", "1"]);
});

verifies("shared.late-apps", "a service leaves the runs of an app alone whose files it lacks", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const site = new Site({});
  const first = await site.start({ flags: { databaseUrl } });
  let looks = 0;
  const aroundStore = (store: Store): Store => ({
    ...store,
    versions: { ...store.versions, find: async (id) => await store.versions.find(id).finally(() => looks++) },
  });
  const second = await beside(site, false).start({ flags: { databaseUrl }, aroundStore });
  const stateOf = await leaveRun(first, second);
  await until("it has looked for them twice", () => looks >= 2);
  expect(await stateOf()).toBe("queued");
});
