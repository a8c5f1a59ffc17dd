import { readdirSync, rmSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const APPS = ["one", "two", "three", "four"];

verifies(
  "nodes.unloadable",
  "callers of an app whose files are gone learn what is missing, until a node comes that has them",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const blobs = scratchDirectory();
    const [dataDir, otherDir] = [scratchDirectory(), scratchDirectory()];
    const shared = { databaseUrl, blobs };
    const first = await testService({}, { ...shared, dataDir });
    for (const name of APPS) await first.deploy(name, { main: `def run():\n    return "${name}"\n` });
    await copyFile(path.join(dataDir, "master.key"), path.join(otherDir, "master.key"));
    // From now on only the first has them.
    for (const folder of readdirSync(path.join(blobs, "sha256")))
      rmSync(path.join(blobs, "sha256", folder), { recursive: true });
    const second = await testService({}, { ...shared, dataDir: otherDir });
    await first.service.stop();
    for (const name of APPS) {
      let message = "";
      await until(`${name} is known to be missing`, async () => {
        const answer = await second.call(name);
        expect([answer.status, answer.json.code]).toEqual([503, "app_not_ready"]);
        ({ message } = answer.json as { message: string });
        return message.includes("no longer in the blob store");
      });
      expect(message).toContain("deploy the app again, or restore a backup");
    }
    const again = await testService({}, { ...shared, dataDir });
    for (const name of APPS) {
      await until(`${name} is served`, async () => (await second.call(name)).status === 200);
      expect([(await again.call(name)).json.result, (await second.call(name)).json.result]).toEqual([
        name,
        name,
      ]);
    }
    const { store } = again.service;
    const counts = await store.appOwners.counts();
    expect([...counts.values()]).toEqual([APPS.length]);
  },
);
