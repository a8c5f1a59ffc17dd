import { randomBytes } from "node:crypto";
import path from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { proveShared } from "../../src/blobs/prove-shared.ts";
import { S3Blobs } from "../../src/blobs/s3/s3-blobs.ts";
import { testBucket } from "../support/blobs/test-bucket.ts";
import { testDatabases } from "../support/databases.ts";
import { verifies } from "../verifies.ts";
import { deployedCopies, otherNode } from "../integration/artifacts/site.ts";
import { POLITE, answer, during } from "../integration/moved/site.ts";

const bucket = testBucket();
const databases = testDatabases();

describe.skipIf(bucket === null)("a bucket", () => {
  verifies(["blobs.fetch", "blobs.shared"], "brings what one node has deployed to another", async () => {
    const site = await deployedCopies(databases)();
    const prefix = `${bucket?.prefix}${randomBytes(6).toString("hex")}/`;
    const spoolDir = path.join(site.folder, "spool");
    const blobs = await S3Blobs.open({ ...bucket!, prefix }, { spoolDir });
    onTestFinished(async () => {
      for await (const { hash } of blobs.list()) await blobs.remove(hash);
      blobs.close();
    });
    for await (const { hash } of site.blobs.list())
      expect((await blobs.put(site.blobs.open(hash))).hash).toBe(hash);
    const { files, database } = await otherNode({ ...site, blobs });
    expect(await files.ensure(site.version)).toBe("fetched");
    await during(database, async (service) => expect(await answer(service)).toEqual(POLITE));
    const instanceId = "an-installation";
    await proveShared(blobs, { instanceId, nodeId: "n-1", others: [] });
    await proveShared(blobs, { instanceId, nodeId: "n-2", others: ["n-1"] });
    const elsewhere = await S3Blobs.open({ ...bucket!, prefix: `${prefix}other/` }, { spoolDir });
    onTestFinished(() => elsewhere.close());
    const apart = proveShared(elsewhere, { instanceId, nodeId: "n-3", others: ["n-1"] });
    await expect(apart).rejects.toThrow("to the same bucket and prefix on every machine");
  });
});
