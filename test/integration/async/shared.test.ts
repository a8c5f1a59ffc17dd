import { copyFileSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, Site, ledger, letGo, submit } from "./site.ts";

const databases = testDatabases();

verifies("shared.late-apps", "a service ends the runs of an app that was deployed beside it", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const flags = { databaseUrl };
  const [site, other] = [new Site({}), new Site({})];
  const first = await site.start({ flags });
  mkdirSync(other.dataDir);
  copyFileSync(path.join(site.dataDir, "master.key"), path.join(other.dataDir, "master.key"));
  mkdirSync(path.join(site.dataDir, "bundles"), { recursive: true });
  symlinkSync(path.join(site.dataDir, "bundles"), path.join(other.dataDir, "bundles"));
  const second = await other.start({ flags });
  const { app } = await first.deploy("late", { main: MAIN, toml: ONE });
  const id = await submit(first, "late", { n: 1 }, { functionName: "hold" });
  await until("it runs", () => ledger(first, "late").length === 1);
  await first.service.stop(0);
  letGo(first, "late");
  const find = async () => await second.service.store.runs.find({ appNumber: app.number, id });
  await until("it has ended", async () => (await find())?.state === "success");
  expect(ledger(first, "late")).toEqual(["1", "1"]);
});
