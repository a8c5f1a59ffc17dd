import { rm } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { verifies } from "../../verifies.ts";
import { POLITE, answer, during } from "../../integration/moved/site.ts";
import { deployedCopies, namesOf, otherNode } from "../../integration/artifacts/site.ts";

const databases = testDatabases();
const deployed = deployedCopies(databases);

function fileOf(place: string, hash: string): string {
  return path.join(place, "sha256", hash.slice(0, 2), hash);
}

verifies("blobs.fetch.rebuild", "packages that do not fit this machine are installed again", async () => {
  const site = await deployed();
  const { files, database } = await otherNode(site);
  const environmentTag = "3.11 cpython-311-riscv64-linux-gnu glibc 2.36";
  expect(await files.ensure({ ...site.version, environmentTag })).toBe("fetched");
  expect(await namesOf(database.dataDir, "environments")).toEqual([path.basename(site.version.environment!)]);
  expect(await namesOf(database.dataDir, "fetching")).toEqual([]);
  await during(database, async (service) => expect(await answer(service)).toEqual(POLITE));
  // To the others it is still what it was.
  const functions = expect.anything();
  expect(await site.store.versions.find(site.version.id)).toEqual({ ...site.version, functions });
});

verifies("blobs.fetch.rebuild", "packages whose blob is gone are installed again", async () => {
  const site = await deployed();
  const { files, database } = await otherNode(site);
  await rm(fileOf(site.blobs.place, site.version.environmentBlob!));
  expect(await files.ensure(site.version)).toBe("fetched");
  await during(database, async (service) => expect(await answer(service)).toEqual(POLITE));
});
