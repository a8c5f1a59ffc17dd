import { existsSync } from "node:fs";
import { lstat, readFile, rm, truncate, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { collectBlobs } from "../../../src/blobs/blob-store.ts";
import { AppError } from "../../../src/model/errors.ts";
import { until } from "../../support/until.ts";
import { testDatabases } from "../../support/databases.ts";
import { inPostgres } from "../../support/killable-service.ts";
import { verifies } from "../../verifies.ts";
import { POLITE, answer, deployPolite, during, scratch } from "../../integration/moved/site.ts";
import { deployedCopies, namesOf, otherNode } from "../../integration/artifacts/site.ts";

const databases = testDatabases();
const deployed = deployedCopies(databases);
const LONG_AGO = new Date(Date.UTC(2020, 0, 1));

function fileOf(place: string, hash: string): string {
  return path.join(place, "sha256", hash.slice(0, 2), hash);
}

verifies(
  ["blobs.versions", "blobs.fetch"],
  "what one node has deployed another fetches once, and runs in its own place",
  async () => {
    const site = await deployed();
    const { version, blobs } = site;
    expect(version).toMatchObject({
      bundleBlob: expect.stringMatching(/^[0-9a-f]{64}$/),
      environmentBlob: expect.stringMatching(/^[0-9a-f]{64}$/),
      environmentTag: expect.stringMatching(/^3\.\d+ cpython-\S+ \w+ [\d.]+$/),
    });
    expect(await blobs.has(version.bundleBlob!)).toBe(true);
    expect(await blobs.has(version.environmentBlob!)).toBe(true);

    const { files, database } = await otherNode(site);
    const all = await Promise.all([files.ensure(version), files.ensure(version), files.ensure(version)]);
    expect(all).toEqual(["fetched", "fetched", "fetched"]);
    expect(await files.ensure(version)).toBe("here");
    expect(await namesOf(database.dataDir, "fetching")).toEqual([]);
    // Nothing of the node that made it is needed.
    await rm(path.join(site.first.dataDir, "environments"), { recursive: true });
    await rm(path.join(site.first.dataDir, "bundles"), { recursive: true });
    await during(database, async (service) => expect(await answer(service)).toEqual(POLITE));
    const script = path.join(database.dataDir, version.environment!, "bin", "polite");
    expect(await readFile(script, "utf8")).toContain(path.join(database.dataDir, version.environment!));
    expect(await readFile(script, "utf8")).not.toContain(site.madeIn);
  },
);

verifies("blobs.versions.alone", "on SQLite there are no blobs", async () => {
  const folder = await scratch();
  const database = { databaseUrl: null, dataDir: path.join(folder, "data") };
  await during(database, async (service) => {
    await deployPolite(service, folder);
    const [version] = await service.store.versions.listAll();
    expect(version).toMatchObject({ bundleBlob: null, environmentBlob: null, environmentTag: null });
  });
  expect(existsSync(path.join(database.dataDir, "blobs"))).toBe(false);
});

verifies("blobs.versions", "a second app with the same packages names the same blob", async () => {
  const site = await deployed();
  const packed = fileOf(site.blobs.place, site.version.environmentBlob!);
  await utimes(packed, LONG_AGO, LONG_AGO);
  await during(site.first, async (service) => await deployPolite(service, site.folder, "second"));
  const versions = await site.store.versions.listAll();
  expect(versions.map(({ environmentBlob }) => environmentBlob)).toEqual([
    site.version.environmentBlob,
    site.version.environmentBlob,
  ]);
});

verifies("blobs.fetch.gone", "a blob that is gone or damaged is told, and leaves nothing", async () => {
  const site = await deployed();
  const { files, database } = await otherNode(site);
  const packed = fileOf(site.blobs.place, site.version.bundleBlob!);
  const bytes = await readFile(packed);
  const refusal = async (version = site.version): Promise<unknown> =>
    await files.ensure(version).catch((error: unknown) => {
      expect(error).toBeInstanceOf(AppError);
      return error instanceof AppError && `${error.code}: ${error.message}`;
    });
  const gone =
    "app_not_ready: The app cannot start: the files of version 1 are no longer in the blob store, or damaged there: deploy the app again, or restore a backup.";
  await writeFile(packed, Buffer.concat([bytes.subarray(0, -1), Buffer.from("!")]));
  expect(await refusal()).toBe(gone);
  await rm(packed);
  expect(await refusal()).toBe(gone);
  expect(await refusal({ ...site.version, bundleBlob: null })).toContain("are on another service");
  expect(await namesOf(database.dataDir, "fetching")).toEqual([]);
  expect(await namesOf(database.dataDir, "bundles")).toEqual([]);
  // It is tried again by whoever asks next.
  await writeFile(packed, bytes);
  expect(await files.ensure(site.version)).toBe("fetched");
});

verifies(
  ["blobs.length", "blobs.fetch.room"],
  "the length that a version tells of its blobs is all that is fetched, and must fit on the disk",
  async () => {
    const site = await deployed();
    const { bundleBytes, environmentBytes } = site.version;
    expect([bundleBytes! > 0, environmentBytes! > 0]).toEqual([true, true]);
    const { files, database } = await otherNode(site);
    const packed = fileOf(site.blobs.place, site.version.bundleBlob!);
    await truncate(packed, 200 * 1024 ** 3);
    await expect(files.ensure(site.version)).rejects.toThrow("or damaged there");
    await truncate(packed, bundleBytes!);
    const vast = { ...site.version, environmentBytes: 2 ** 60 };
    await expect(files.ensure(vast)).rejects.toThrow("do not fit on this service's disk: make room there");
    expect(await namesOf(database.dataDir, "fetching")).toEqual([]);
    expect(await namesOf(database.dataDir, "environments")).toEqual([]);
    expect(await files.ensure(site.version)).toBe("fetched");
  },
);

/** Only root gives files to others. */
test.runIf(process.getuid?.() === 0)(
  "what is fetched belongs to the project's user, all but its marker",
  async () => {
    const site = await deployed();
    const first = 1_900_000_000;
    const { files, database } = await otherNode(site, { first, last: first + 9 });
    expect(await files.ensure(site.version)).toBe("fetched");
    const owner = async (...place: string[]): Promise<number> =>
      (await lstat(path.join(database.dataDir, ...place))).uid;
    const { bundle, environment } = site.version;
    for (const place of ["", "main.py", "__pycache__"])
      expect([place, await owner(bundle, place)]).toEqual([place, first]);
    for (const place of ["pyvenv.cfg", "bin/python", "bin/polite", "lib"])
      expect([place, await owner(environment!, place)]).toEqual([place, first]);
    expect([await owner(environment!), await owner(environment!, "ready")]).toEqual([0, 0]);
  },
);

verifies(
  "blobs.earlier",
  "what a service has of versions without blobs is stored when it starts",
  async () => {
    const site = await deployed();
    const { id } = site.version;
    await inPostgres(site.first, async (client) => {
      await client.query(
        "update versions set bundle_blob = null, environment_blob = null, environment_tag = null",
      );
    });
    await rm(path.join(site.blobs.place, "sha256"), { recursive: true });
    await during(site.first, async ({ store }) => {
      await until(
        "its blobs are named",
        async () => (await store.versions.find(id))?.environmentBlob !== null,
      );
      const { bundleBlob, environmentBlob, environmentTag } = (await store.versions.find(id))!;
      expect([bundleBlob, environmentTag]).toEqual([site.version.bundleBlob, site.version.environmentTag]);
      expect(await site.blobs.has(bundleBlob!)).toBe(true);
      expect(await site.blobs.has(environmentBlob!)).toBe(true);
    });
  },
);

verifies("blobs.collected", "what no version names goes when it is old, and only once an hour", async () => {
  const { store, blobs, version } = await deployed();
  const { signal } = new AbortController();
  const [old, young] = [await blobs.put([Buffer.from("old")]), await blobs.put([Buffer.from("young")])];
  for (const hash of [old.hash, version.bundleBlob!, version.environmentBlob!])
    await utimes(fileOf(blobs.place, hash), LONG_AGO, LONG_AGO);
  expect(await collectBlobs(blobs, store.versionBlobs.named, Date.UTC(2021, 0, 1), signal)).toBe(1);
  const kept = [young.hash, version.bundleBlob!, version.environmentBlob!];
  expect(await Promise.all([old.hash, ...kept].map((hash) => blobs.has(hash)))).toEqual([
    false,
    true,
    true,
    true,
  ]);
  const turns = await Promise.all([1, 2, 3].map(() => store.versionBlobs.takeCollection(60_000)));
  expect(turns.filter(Boolean)).toHaveLength(1);
  expect(await store.versionBlobs.takeCollection(60_000)).toBe(false);
  expect(await store.versionBlobs.takeCollection(0)).toBe(true);
});
