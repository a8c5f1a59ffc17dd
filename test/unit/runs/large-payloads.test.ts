import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import type { BlobStore } from "../../../src/blobs/blob-store.ts";
import { DirectoryBlobs } from "../../../src/blobs/directory-blobs.ts";
import { S3Blobs } from "../../../src/blobs/s3/s3-blobs.ts";
import { TICK_MS } from "../../../src/kit/breaker.ts";
import { type Clock, systemClock } from "../../../src/kit/clock.ts";
import { createLog } from "../../../src/kit/log.ts";
import { LARGE_BYTES, LargePayloads } from "../../../src/runs/large-payloads.ts";
import { ANY_KEYS, scriptedStore } from "../../support/blobs/scripted-store.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const LARGE = randomBytes(LARGE_BYTES + 1);
const LONG_AGO = new Date(Date.UTC(2020, 0, 1));
const UNAVAILABLE = { code: "storage_unavailable", status: 503 };

function folder(): string {
  const made = mkdtempSync(path.join(tmpdir(), "millrace-large-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** Of a store, with the hashes that some run names. */
function over(blobs: BlobStore, clock: Clock = systemClock) {
  const named = new Set<string>();
  const site = { named };
  const runBlobs = {
    named: async (hashes: readonly string[]) => hashes.filter((hash) => named.has(hash)),
    tidy: async () => null,
  };
  const large = new LargePayloads({
    blobs,
    place: { check: async () => undefined },
    store: { runBlobs },
    clock,
    log: createLog("silent"),
    isFirst: () => true,
  });
  onTestFinished(() => large.stop());
  return Object.assign(site, { large });
}

function fileOf({ place }: BlobStore, hash: string): string {
  return path.join(place, "sha256", hash.slice(0, 2), hash);
}

verifies("payloads.blob", "what has more than a mebibyte lies in a blob", async () => {
  const blobs = await DirectoryBlobs.open(folder());
  const site = over(blobs);
  const { large } = site;
  expect([null, LARGE.subarray(1), LARGE].map((bytes) => large.isLarge(bytes))).toEqual([false, false, true]);
  const blob = await large.put(LARGE);
  expect(blob.bytes).toBe(LARGE.length);
  expect((await large.read(blob))?.equals(LARGE)).toBe(true);
});

verifies(
  "payloads.blob.gone",
  "one that is gone, damaged or of another length is not kept any more",
  async () => {
    const blobs = await DirectoryBlobs.open(folder());
    const { large } = over(blobs);
    const blob = await large.put(LARGE);
    expect(await large.read({ ...blob, bytes: blob.bytes - 1 })).toBeNull();
    expect(await large.read({ ...blob, bytes: Number.MAX_SAFE_INTEGER })).toBeNull();
    // As long as 100 GB, without taking up anything.
    truncateSync(fileOf(blobs, blob.hash), 100e9);
    expect(await large.read(blob)).toBeNull();
    writeFileSync(fileOf(blobs, blob.hash), randomBytes(blob.bytes));
    expect(await large.read(blob)).toBeNull();
    rmSync(fileOf(blobs, blob.hash));
    expect(await large.read(blob)).toBeNull();
  },
);

verifies("payloads.blob.away", "a store that refuses is 503, and so is one that says nothing", async () => {
  const place = folder();
  const { large } = over(await DirectoryBlobs.open(place));
  const blob = await large.put(LARGE);
  rmSync(place, { recursive: true });
  writeFileSync(place, "no directory");
  await expect(large.put(LARGE)).rejects.toMatchObject(UNAVAILABLE);
  await expect(large.read(blob)).rejects.toMatchObject(UNAVAILABLE);

  const unanswered: ServerResponse[] = [];
  let isSilent = false;
  const { address, came } = await scriptedStore(({ method }, answer) => {
    if (isSilent) unanswered.push(answer);
    else answer.writeHead(method === "HEAD" ? 404 : 200).end();
  });
  const s3 = await S3Blobs.open(address, { spoolDir: folder(), env: ANY_KEYS });
  onTestFinished(() => s3.close());
  const clock = new HandClock();
  const site = over(s3, clock);
  await site.large.put(LARGE);
  isSilent = true;
  const refused = site.large.put(LARGE).catch((error: unknown) => error);
  await clock.passDuring(refused);
  expect(await refused).toMatchObject(UNAVAILABLE);
  // From now on nobody waits: the store is not even asked.
  const puts = () => came.filter(({ method }) => method === "PUT").length;
  const before = puts();
  await expect(site.large.put(LARGE)).rejects.toMatchObject(UNAVAILABLE);
  await expect(site.large.read(blob)).rejects.toMatchObject(UNAVAILABLE);
  expect(puts()).toBe(before);
  isSilent = false;
  for (const answer of unanswered) answer.writeHead(404).end();
  await until("it is asked again", async () => await site.large.put(LARGE).then(Boolean, () => false));
});

verifies("payloads.blob.back", "connections that were lost in silence keep nobody waiting", async () => {
  const known = new Set<unknown>();
  let isLost = false;
  const { address } = await scriptedStore(({ method }, answer) => {
    if (!isLost) known.add(answer.socket);
    else if (known.has(answer.socket)) return;
    answer.writeHead(method === "HEAD" ? 404 : 200, { "content-length": 0 }).end();
  });
  const s3 = await S3Blobs.open(address, { spoolDir: folder(), env: ANY_KEYS });
  onTestFinished(() => s3.close());
  const clock = new HandClock();
  const { large } = over(s3, clock);
  await Promise.all(Array.from({ length: 4 }, () => s3.has("0".repeat(64))));
  await large.put(LARGE);
  isLost = true;
  const refused = large.put(LARGE).catch((error: unknown) => error);
  await clock.passDuring(refused);
  expect(await refused).toMatchObject(UNAVAILABLE);
  await until("it takes payloads again", async () => {
    clock.advance(500);
    return await large.put(LARGE).then(Boolean, () => false);
  });
});

verifies("payloads.blob.away", "a store whose connections are all busy is not taken for silent", async () => {
  const unanswered: ServerResponse[] = [];
  const { address, came } = await scriptedStore(({ method }, answer) => {
    if (method === "PUT") unanswered.push(answer);
    else answer.writeHead(method === "HEAD" ? 404 : 200).end();
  });
  const s3 = await S3Blobs.open(address, { spoolDir: folder(), env: ANY_KEYS });
  onTestFinished(() => s3.close());
  const clock = new HandClock();
  const { large } = over(s3, clock);
  const puts = Array.from({ length: 16 }, () => large.put(LARGE));
  await until("all are under way", () => unanswered.length === puts.length);
  // Less than would be given up, and enough to wonder.
  for (let passedMs = 0; passedMs < 3_000; passedMs += TICK_MS) {
    clock.advance(TICK_MS);
    await setImmediate();
    await setImmediate();
  }
  await until("it is asked for something small", () => came.some(({ method }) => method === "HEAD"));
  for (const answer of unanswered) answer.writeHead(200).end();
  expect(await Promise.all(puts)).toHaveLength(puts.length);
});

verifies("payloads.blob.collected", "what no run names goes an hour after it was put", async () => {
  const blobs = await DirectoryBlobs.open(folder());
  const { large, named } = over(blobs);
  const [kept, gone, young] = await Promise.all(
    ["kept", "gone", "young"].map((text) => blobs.put([Buffer.from(text)])),
  );
  named.add(kept!.hash);
  for (const { hash } of [kept!, gone!]) utimesSync(fileOf(blobs, hash), LONG_AGO, LONG_AGO);
  await large.collect();
  const left = await Promise.all([kept!, gone!, young!].map(({ hash }) => blobs.has(hash)));
  expect(left).toEqual([true, false, true]);
});

verifies("payloads.blob.collected", "by a clock that is hours ahead nothing goes sooner", async () => {
  const blobs = await DirectoryBlobs.open(folder());
  const ahead = { ...systemClock, now: () => Date.now() + 5 * 3600 * 1000 };
  const { large } = over(blobs, ahead);
  const { hash } = await blobs.put([Buffer.from("no row names it yet")]);
  await large.collect();
  expect(await blobs.has(hash)).toBe(true);
  utimesSync(fileOf(blobs, hash), LONG_AGO, LONG_AGO);
  await large.collect();
  expect(await blobs.has(hash)).toBe(false);
});
