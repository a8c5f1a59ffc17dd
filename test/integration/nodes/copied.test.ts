import { copyFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies("nodes.copied", "a service on a copy of another's data directory says so", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const shared = { databaseUrl, blobs: scratchDirectory() };
  const first = await testService({}, shared);
  const dataDir = scratchDirectory();
  for (const name of ["master.key", "directory-id", "owners.json"])
    copyFileSync(path.join(first.settings.dataDir, name), path.join(dataDir, name));
  await expect(testService({}, { ...shared, dataDir })).rejects.toThrow(
    /is a copy of .* remove the file directory-id/,
  );
  expect((await first.call("none")).status).toBe(404);
});
