import { copyFileSync, mkdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, Site, ledger, letGo, submit } from "./site.ts";

const databases = testDatabases();

/** Another place on the database of the first. */
function beside(first: Site): Site {
  const site = new Site({});
  mkdirSync(site.dataDir);
  copyFileSync(path.join(first.dataDir, "master.key"), path.join(site.dataDir, "master.key"));
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
  const blobs = path.join(site.dataDir, "blobs");
  const first = await site.start({ flags: { databaseUrl, blobs } });
  const second = await beside(site).start({ flags: { databaseUrl, blobs } });
  const stateOf = await leaveRun(first, second);
  await until("it has ended", async () => (await stateOf()) === "success");
  expect(ledger(first, "late")).toEqual(["1", "1"]);
});

verifies("blobs.shared", "a service that keeps its blobs elsewhere does not start", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const site = new Site({});
  await site.start({ flags: { databaseUrl } });
  await expect(beside(site).start({ flags: { databaseUrl } })).rejects.toThrow(/set MILLRACE_BLOBS/);
});
