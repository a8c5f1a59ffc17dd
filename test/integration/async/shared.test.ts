import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, Site, ledger, submit } from "./site.ts";

const databases = testDatabases();

/** Another place on the database of the first. */
function beside(first: Site): Site {
  const site = new Site({});
  mkdirSync(site.dataDir);
  copyFileSync(path.join(first.dataDir, "master.key"), path.join(site.dataDir, "master.key"));
  return site;
}

verifies("shared.late-apps", "a service ends the runs of an app that was deployed beside it", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const site = new Site({});
  const blobs = path.join(site.dataDir, "blobs");
  const first = await site.start({ flags: { databaseUrl, blobs } });
  const second = await beside(site).start({ flags: { databaseUrl, blobs } });
  const { app } = await first.deploy("late", { main: MAIN, toml: ONE });
  const id = await submit(first, "late", { n: 1 }, { functionName: "hold" });
  await until("it runs", () => ledger(first, "late").length === 1);
  await first.service.stop(0);
  // Its files came to the second by the blobs.
  const copied = first.bundleDir("late").replace(first.settings.dataDir, second.settings.dataDir);
  await until("it runs again", () => existsSync(path.join(copied, "ledger")));
  writeFileSync(path.join(copied, "go"), "");
  const stateOf = async () => (await second.service.store.runs.find({ appNumber: app.number, id }))?.state;
  await until("it has ended", async () => (await stateOf()) === "success");
});

verifies("blobs.shared", "a service that keeps its blobs elsewhere does not start", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const site = new Site({});
  await site.start({ flags: { databaseUrl } });
  await expect(beside(site).start({ flags: { databaseUrl } })).rejects.toThrow(/set MILLRACE_BLOBS/);
});
