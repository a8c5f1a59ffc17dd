import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { type S3Client, S3Error } from "./s3-client.ts";
import { element, escaped } from "./xml.ts";

/** What is larger is sent in parts of this size. */
export const PART_BYTES = 16 * 1024 * 1024;
/** S3 takes so many. */
const MAX_PARTS = 10_000;

type Part = { readonly etag: string; readonly checksum: string };

/** How large the parts of so many bytes are: larger ones where there would be too many. */
export function partBytes(bytes: number): number {
  return Math.max(PART_BYTES, Math.ceil(bytes / MAX_PARTS / PART_BYTES) * PART_BYTES);
}

/**
 * Stores what is in a file under a key, part by part, each with its checksum. What fails leaves nothing behind, as far as
 * the store can still be reached.
 */
export async function putParts(
  client: S3Client,
  key: string,
  {
    file,
    bytes,
    size = partBytes(bytes),
  }: { readonly file: FileHandle; readonly bytes: number; readonly size?: number },
  signal?: AbortSignal,
): Promise<void> {
  const begun = await client.ask({
    method: "POST",
    key,
    query: [["uploads", ""]],
    headers: { "x-amz-checksum-algorithm": "SHA256" },
    signal,
  });
  const uploadId = element(begun.body.toString("utf8"), "UploadId");
  if (!uploadId || uploadId.length > 2_048) throw new Error(`${client.place} began an upload without an id`);
  try {
    const parts: Part[] = [];
    for (let at = 0; at < bytes; at += size) {
      const body = await readAt(file, at, Math.min(size, bytes - at));
      parts.push(await putPart(client, { key, uploadId, number: parts.length + 1, body }, signal));
    }
    await complete(client, { key, uploadId, parts }, signal);
  } catch (error) {
    await client
      .ask({ method: "DELETE", key, query: [["uploadId", uploadId]] }, [404])
      .catch(() => undefined);
    throw error;
  }
}

async function putPart(
  client: S3Client,
  { key, uploadId, number, body }: { key: string; uploadId: string; number: number; body: Buffer },
  signal?: AbortSignal,
): Promise<Part> {
  const checksum = createHash("sha256").update(body).digest("base64");
  const answer = await client.ask({
    method: "PUT",
    key,
    query: [
      ["partNumber", String(number)],
      ["uploadId", uploadId],
    ],
    headers: { "x-amz-checksum-sha256": checksum },
    body,
    signal,
  });
  return { etag: answer.headers.etag ?? "", checksum };
}

async function complete(
  client: S3Client,
  { key, uploadId, parts }: { key: string; uploadId: string; parts: readonly Part[] },
  signal?: AbortSignal,
): Promise<void> {
  const list = parts.map(
    ({ etag, checksum }, index) =>
      `<Part><PartNumber>${index + 1}</PartNumber><ETag>${escaped(etag)}</ETag><ChecksumSHA256>${checksum}</ChecksumSHA256></Part>`,
  );
  const body = Buffer.from(`<CompleteMultipartUpload>${list.join("")}</CompleteMultipartUpload>`);
  const asked = { method: "POST", key, query: [["uploadId", uploadId]], body, signal } as const;
  // One that is gone was completed by a try whose answer was lost: whoever asked looks whether the object is there.
  const answer = await client.ask(asked, [404]);
  // A store that began to answer says only in the body how it ended.
  const text = answer.body.toString("utf8");
  if (answer.status !== 404 && element(text, "Error") !== null)
    throw new S3Error(client.place, asked, { ...answer, status: 500 });
}

async function readAt(file: FileHandle, at: number, bytes: number): Promise<Buffer> {
  const body = Buffer.allocUnsafe(bytes);
  for (let read = 0; read < bytes;) {
    const { bytesRead } = await file.read(body, read, bytes - read, at + read);
    if (bytesRead === 0) throw new Error("a file became shorter while it was uploaded");
    read += bytesRead;
  }
  return body;
}
