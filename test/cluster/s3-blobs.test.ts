import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { S3Blobs, type S3Options } from "../../src/blobs/s3/s3-blobs.ts";
import { elements } from "../../src/blobs/s3/answers.ts";
import { type S3Address, S3Client } from "../../src/blobs/s3/s3-client.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { all, bytesOf, forgetsUnfinished, keepsBlobs } from "../support/blobs/blob-contract.ts";
import { testBucket } from "../support/blobs/test-bucket.ts";
import { verifies } from "../verifies.ts";

const bucket = testBucket();

/** The least that S3 takes for a part that is not the last one. */
const PART_BYTES = 5 * 1024 * 1024;
const LARGE_BYTES = 2 * PART_BYTES + 12_345;

/** A store with a prefix of its own, which is empty afterwards. */
async function open(more: Partial<S3Options> & { readonly address?: Partial<S3Address> } = {}) {
  const spoolDir = mkdtempSync(path.join(tmpdir(), "millrace-spool-"));
  const prefix = `${bucket?.prefix}${randomBytes(6).toString("hex")}/`;
  const address = { ...bucket!, prefix, ...more.address };
  const blobs = await S3Blobs.open(address, { spoolDir, partBytes: PART_BYTES, ...more });
  onTestFinished(async () => {
    for await (const { hash } of blobs.list()) await blobs.remove(hash);
    blobs.close();
    rmSync(spoolDir, { recursive: true });
  });
  const client = new S3Client(address, process.env, systemClock);
  onTestFinished(() => client.close());
  return { blobs, spoolDir, client, address };
}

async function uploadsOf(client: S3Client, prefix: string): Promise<string[]> {
  const query = { uploads: "", prefix };
  const { body } = await client.ask({ method: "GET", key: "", query });
  return elements(body.toString("utf8"), "UploadId");
}

describe.skipIf(bucket === null)("a bucket", () => {
  verifies(
    ["blobs.s3", "blobs.hash", "blobs.range", "blobs.at-once", "blobs.s3.parts"],
    "keeps blobs, small and in parts",
    async () => {
      const { blobs, spoolDir, client, address } = await open();
      await keepsBlobs(blobs, LARGE_BYTES);
      expect(readdirSync(spoolDir)).toEqual([]);
      expect(await uploadsOf(client, address.prefix)).toEqual([]);
    },
  );

  verifies("blobs.whole", "what breaks off leaves no blob, no part and no file", async () => {
    const { blobs, spoolDir, client, address } = await open();
    await forgetsUnfinished(blobs, LARGE_BYTES);
    expect(readdirSync(spoolDir)).toEqual([]);
    expect(await uploadsOf(client, address.prefix)).toEqual([]);
  });

  verifies(
    "blobs.s3.condition",
    "a second put on condition that there is none is refused by the store",
    async () => {
      const { blobs, client, address } = await open();
      const { hash } = await blobs.put([Buffer.from("one")]);
      const key = `${address.prefix}sha256/${hash}`;
      const headers = { "if-none-match": "*" };
      const { status } = await client.ask({ method: "PUT", key, headers, body: Buffer.from("two") }, [412]);
      expect(status).toBe(412);
      await blobs.put([Buffer.from("one")]);
      expect((await bytesOf(blobs.open(hash))).toString()).toBe("one");
    },
  );

  verifies(
    "blobs.s3.refused",
    "wrong keys and a bucket that is not there are told at the start",
    async () => {
      const env = { AWS_ACCESS_KEY_ID: "nobody", AWS_SECRET_ACCESS_KEY: "nothing" };
      await expect(open({ env })).rejects.toThrow(/^s3:\/\/\S+ refused GET with 403 \(/);
      await expect(open({ address: { bucket: "no-such-bucket-here" } })).rejects.toThrow("NoSuchBucket");
    },
  );

  verifies("blobs.s3", "more blobs than fit on a page are all listed", async () => {
    const { blobs } = await open();
    const names: string[] = [];
    const put = async (worker: number): Promise<void> => {
      for (let count = 0; count < 130; count++)
        names.push((await blobs.put([Buffer.from(`${worker}-${count}`)])).hash);
    };
    await Promise.all(Array.from({ length: 8 }, async (_, worker) => await put(worker)));
    const listed = await all(blobs.list());
    expect(listed.map(({ hash }) => hash).toSorted()).toEqual(names.toSorted());
  });

  verifies("blobs.s3.parts", "parts that nobody completed are cleared away once they are old", async () => {
    const { blobs, client, address } = await open();
    const key = `${address.prefix}sha256/${"0".repeat(64)}`;
    await client.ask({ method: "POST", key, query: { uploads: "" } });
    await blobs.tidy(0);
    expect(await uploadsOf(client, address.prefix)).toHaveLength(1);
    await blobs.tidy(Date.now() + 3_600_000);
    expect(await uploadsOf(client, address.prefix)).toEqual([]);
  });
});
