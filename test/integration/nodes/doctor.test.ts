import { Client } from "pg";
import { expect } from "vitest";
import { checkApps } from "../../../src/cli/operator/doctor/data-checks.ts";
import { repair } from "../../../src/cli/operator/doctor/doctor.ts";
import { inspectDatabase } from "../../../src/store/upkeep/whole-database.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "doctor.repair",
  "a node need not have what it can fetch; what is in no blob is missing where it is not",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const [otherDir, blobs] = [scratchDirectory(), scratchDirectory()];
    const first = await testService({}, { databaseUrl, blobs });
    await first.deploy("app", { main: "def run():\n    return 1\n" });
    const settings = { ...first.settings, dataDir: otherDir };
    const check = async () => await checkApps(await inspectDatabase(settings, false), settings);
    expect(await check()).toMatchObject([{ status: "ok", message: "1 version has all it needs to start" }]);
    const client = new Client({ connectionString: databaseUrl ?? "" });
    await client.connect();
    await client.query("update versions set bundle_blob = null");
    await client.end();
    expect(await check()).toMatchObject([
      { status: "fail", remedy: "deploy the app again, or restore the last backup" },
    ]);
    expect(await repair({ ...settings, engine: "kubernetes" }, () => {})).toMatchObject([
      { status: "fail", remedy: "start the service, and run the repair again" },
    ]);
  },
);
