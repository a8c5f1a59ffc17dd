import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { randomBytes } from "node:crypto";
import { expect, onTestFinished } from "vitest";
import { partBytes, S3Blobs } from "../../../src/blobs/s3/s3-blobs.ts";
import { locate } from "../../../src/blobs/s3/s3-client.ts";
import { bytesOf, hashOf, inPieces } from "../../support/blobs/blob-contract.ts";
import { ANY_KEYS, impatientClock, scriptedStore } from "../../support/blobs/scripted-store.ts";
import type { Came, Play } from "../../support/blobs/scripted-store.ts";
import { verifies } from "../../verifies.ts";

const TEXT = Buffer.from("some text that comes in two halves");
const NONE = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";

/** A store whose answers to all but the first look are played. */
async function open(play: Play) {
  const { address, came } = await scriptedStore((request, answer, past) => {
    if (request.url.includes("list-type")) answer.end(NONE);
    else play(request, answer, past);
  });
  const spoolDir = mkdtempSync(path.join(tmpdir(), "millrace-spool-"));
  onTestFinished(() => rmSync(spoolDir, { recursive: true }));
  const options = { spoolDir, env: ANY_KEYS, clock: impatientClock, partBytes: 100_000 };
  const blobs = await S3Blobs.open(address, options);
  onTestFinished(() => blobs.close());
  came.length = 0;
  return { blobs, came };
}

verifies("blobs.s3.tries", "a store that stumbles, or hangs up, is asked again", async () => {
  const { blobs, came } = await open((_, answer, past) => {
    if (past.length === 0) answer.writeHead(503).end("<Error><Code>SlowDown</Code></Error>");
    else if (past.length === 1) answer.destroy();
    else answer.end();
  });
  await blobs.put([TEXT]);
  expect(came.map(({ method, body }) => [method, body.equals(TEXT)])).toEqual(
    Array.from({ length: 3 }, () => ["PUT", true]),
  );
});

verifies("blobs.s3.tries", "one that never gets better is given up, with its own words", async () => {
  const { blobs, came } = await open((_, answer) => {
    answer
      .writeHead(500)
      .end("<Error><Code>InternalError</Code><Message>Later &amp; maybe</Message></Error>");
  });
  await expect(blobs.put([TEXT])).rejects.toThrow(
    "s3://bucket/ refused PUT with 500 (InternalError: Later & maybe)",
  );
  expect(came).toHaveLength(5);
});

verifies("blobs.s3.refused", "what is refused for good is not asked again", async () => {
  const { blobs, came } = await open((_, answer) => {
    answer.writeHead(403).end("<Error><Code>AccessDenied</Code><Message>Not you</Message></Error>");
  });
  await expect(blobs.put([TEXT])).rejects.toThrow("refused PUT with 403 (AccessDenied: Not you)");
  expect(came).toHaveLength(1);
});

verifies("blobs.s3.tries", "a read that breaks off goes on where it was", async () => {
  const { blobs, came } = await open(({ headers }, answer) => {
    const from = Number(/^bytes=(\d+)-$/.exec(headers.range ?? "")?.[1] ?? 0);
    answer.writeHead(from > 0 ? 206 : 200, { "content-length": TEXT.length - from });
    const piece = TEXT.subarray(from, from + 10);
    if (from + piece.length === TEXT.length) answer.end(piece);
    else answer.write(piece, () => answer.destroy());
  });
  expect(await bytesOf(blobs.open(hashOf(TEXT)))).toEqual(TEXT);
  expect(came.map(({ headers }) => headers.range)).toEqual([
    undefined,
    "bytes=10-",
    "bytes=20-",
    "bytes=30-",
  ]);
});

verifies("blobs.hash", "bytes of a store that are not those of the hash are refused", async () => {
  const { blobs } = await open((_, answer) => answer.end("something else"));
  await expect(bytesOf(blobs.open(hashOf(TEXT)))).rejects.toThrow("is damaged");
});

verifies("blobs.length", "a store's blob is read no further than it is known to be long", async () => {
  const read = async (told: Record<string, number>, body: Buffer): Promise<Buffer> => {
    const { blobs } = await open((_, answer) => answer.writeHead(200, told).end(body));
    return await bytesOf(blobs.open(hashOf(TEXT), { bytes: TEXT.length }));
  };
  expect(await read({ "content-length": TEXT.length }, TEXT)).toEqual(TEXT);
  const longer = Buffer.concat([TEXT, TEXT]);
  await expect(read({ "content-length": longer.length }, longer)).rejects.toThrow("is damaged");
  // One that does not tell its length.
  await expect(read({}, longer)).rejects.toThrow("is damaged");
});

verifies(
  "blobs.s3.condition",
  "a blob is put if there is none, and where no store knows conditions",
  async () => {
    const { blobs, came } = await open(({ headers }, answer) => {
      if (headers["if-none-match"] === "*") answer.writeHead(501);
      answer.end();
    });
    await blobs.put([TEXT]);
    expect(came.map(({ headers }) => headers["if-none-match"])).toEqual(["*", undefined]);
    const checksum = Buffer.from(hashOf(TEXT), "hex").toString("base64");
    expect(came.map(({ headers }) => headers["x-amz-checksum-sha256"])).toEqual([checksum, checksum]);
  },
);

verifies("blobs.young", "one that is there is left if it is young, and put again if it is old", async () => {
  let putAt = new Date();
  const { blobs, came } = await open(({ method, headers }, answer) => {
    if (method === "HEAD") answer.setHeader("last-modified", putAt.toUTCString());
    else if (headers["if-none-match"] === "*") answer.writeHead(412);
    answer.end();
  });
  await blobs.put([TEXT]);
  expect(came.map(({ method }) => method)).toEqual(["PUT", "HEAD"]);
  putAt = new Date(Date.UTC(2020, 0, 1));
  await blobs.put([TEXT]);
  expect(came.slice(2).map(({ method }) => method)).toEqual(["PUT", "HEAD", "PUT"]);
  expect(await blobs.remove(hashOf(TEXT), putAt.getTime() - 1_000)).toBe(false);
  expect(came.some(({ method }) => method === "DELETE")).toBe(false);
});

verifies("blobs.s3.parts", "parts carry their checksums, and a cancelled upload is taken back", async () => {
  const ending = new AbortController();
  const { blobs, came } = await open(({ method, url }, answer) => {
    if (method === "HEAD") answer.statusCode = 404;
    if (url.includes("partNumber=2")) ending.abort(new Error("cancelled"));
    answer.setHeader("etag", '"tag"').end(url.endsWith("?uploads=") ? "<R><UploadId>u1</UploadId></R>" : "");
  });
  const bytes = randomBytes(250_000);
  await expect(blobs.put(inPieces(bytes, 30_000), ending.signal)).rejects.toThrow("aborted");
  const parts = came.filter(({ method }) => method === "PUT");
  expect(parts.map(partOf)).toEqual([
    { number: "1", isChecked: true, bytes: 100_000 },
    { number: "2", isChecked: true, bytes: 100_000 },
  ]);
  expect(came.at(-1)).toMatchObject({ method: "DELETE", url: expect.stringContaining("uploadId=u1") });
});

function partOf({ url, headers, body }: Came) {
  const number = new URL(url, "http://x").searchParams.get("partNumber");
  const checksum = Buffer.from(hashOf(body), "hex").toString("base64");
  return { number, isChecked: headers["x-amz-checksum-sha256"] === checksum, bytes: body.length };
}

verifies("blobs.s3.parts", "what would be too many parts is sent in larger ones", () => {
  const mebibyte = 1024 * 1024;
  expect(partBytes(20 * mebibyte)).toBe(16 * mebibyte);
  for (const bytes of [160_000 * mebibyte, 160_001 * mebibyte, 262_144 * mebibyte])
    expect(Math.ceil(bytes / partBytes(bytes))).toBeLessThanOrEqual(10_000);
});

verifies("blobs.s3.style", "the bucket is in the path or in the host", () => {
  const address = { kind: "s3", bucket: "b", prefix: "", region: null } as const;
  const where = (endpoint: string | null, isPathStyle: boolean): string => {
    const { origin, folder } = locate({ ...address, endpoint, isPathStyle }, "eu-1");
    return origin.origin + folder;
  };
  expect(where(null, false)).toBe("https://b.s3.eu-1.amazonaws.com/");
  expect(where(null, true)).toBe("https://s3.eu-1.amazonaws.com/b/");
  expect(where("http://store:9000", false)).toBe("http://b.store:9000/");
  expect(where("http://store:9000", true)).toBe("http://store:9000/b/");
});
