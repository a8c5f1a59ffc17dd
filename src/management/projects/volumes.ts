import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { z } from "zod";
import type { OpenFile, SizeChange, VolumeEntry } from "../../apps/volumes/volume-files.ts";
import { systemClock } from "../../kit/clock.ts";
import { FairLane } from "../../kit/concurrency.ts";
import { AppError } from "../../model/errors.ts";
import { BEGUN_UPLOAD, COMPLETED_FILE, FILES, type FileEntry } from "../../shapes/projects.ts";
import { OFFERED_FILE, REMOVED_FILE, STORED_PART } from "../../shapes/projects.ts";
import { timestamp } from "../../shapes/common.ts";
import { baseUrlOf } from "../api/addresses.ts";
import { type Call, type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";
import { MAX_PART_BYTES } from "../../apps/volumes/uploads.ts";
import { takeBytes } from "../api/bodies.ts";

/** One at a time of each project: a list may take megabytes until it is read. */
const LIMITS = { total: Number.POSITIVE_INFINITY, perKey: 1, waiting: 32, waitMs: 10_000 } as const;
/** Entries that are written in one go: a fraction of a millisecond. */
const PER_PIECE = 500;

/** Answers with lists that may be long: one of a project at a time, written piece by piece. */
export class LongLists {
  readonly #lane = new FairLane(LIMITS, systemClock);

  /** Sends the list that `read` returns; the project's next list waits until the answer is sent. */
  async send(reply: FastifyReply, projectId: string, read: () => Promise<readonly unknown[]>) {
    const leave = await this.#lane.enter(projectId);
    if (!leave) throw new AppError("too_many_in_flight", { headers: { "retry-after": "1" } });
    reply.raw.once("close", leave);
    // It may have closed while it waited.
    if (reply.raw.destroyed) leave();
    const pieces = Readable.from(jsonPieces(await read()), { objectMode: false });
    return reply.type("application/json").send(pieces);
  }
}

/** A JSON list as text, a few entries at a time. */
export function* jsonPieces(entries: readonly unknown[]): Generator<string> {
  let open = "[";
  for (let first = 0; first < entries.length; first += PER_PIECE) {
    yield open + JSON.stringify(entries.slice(first, first + PER_PIECE)).slice(1, -1);
    open = ",";
  }
  yield entries.length === 0 ? "[]" : "]";
}

const operation = tagged("Volumes");
const PATH = "/v2/projects/{project_id}/volumes/default";
/** Where parts are sent and files are read. These URLs carry their own authorization instead of a token. */
const PART_PATH = "/v2/volumes/parts/{part_number}";
const DOWNLOAD_PATH = "/v2/volumes/file";
const GRANT = z.object({ grant: z.string().min(1).max(10_000) });
const MAX_PARTS = 2_000;
const FILE_PATH = z.string().min(1).max(4_000);
/** Clients name one; there is one. */
const REGION = z.string().max(100).nullish();

const UPLOAD = z.object({ file_path: FILE_PATH, part_count: z.int().min(0).max(MAX_PARTS), region: REGION });
const COMPLETED = z.object({
  upload_id: z.string().min(1).max(10_000),
  file_path: FILE_PATH,
  parts: z
    .array(z.object({ part_number: z.int().min(1).max(MAX_PARTS), etag: z.string().max(200) }))
    .max(MAX_PARTS),
  region: REGION,
});

/** A project's files: the persistent storage of its apps. */
export function volumeOperations({ volumes, publicBaseUrl }: ManagementParts): Operation[] {
  const lists = new LongLists();
  const recordFile = async (
    { record }: Call,
    action: "write" | "remove",
    target: string,
    { beforeBytes, afterBytes }: SizeChange,
  ): Promise<void> => {
    const sizes = [beforeBytes, afterBytes].map((size) => (size === null ? null : { sizeBytes: size }));
    await record(`volume.${action}`, target, { before: sizes[0], after: sizes[1] });
  };

  return [
    operation("GET", `${PATH}/ls`, {
      id: "listFiles",
      summary: "List a folder; a folder that does not exist is empty",
      access: "deploy",
      query: z.object({ dir: z.string().max(4_000).default("/") }),
      response: FILES,
      handle: async ({ projectId, query, reply }) =>
        await lists.send(reply, projectId, async () => (await volumes.list(projectId, query.dir)).map(shown)),
    }),
    operation("POST", `${PATH}/cp/initialize`, {
      id: "beginUpload",
      summary: "Start an upload; PUT each part to its own URL",
      access: "admin",
      body: UPLOAD,
      response: BEGUN_UPLOAD,
      errors: ["not_found"],
      handle: async (call) => {
        const { file_path: filePath, part_count: partCount } = call.body;
        const uploadId = await volumes.begin(call.projectId, filePath, partCount);
        // An empty file has no parts, and clients do not complete it: it exists now.
        if (partCount === 0) await recordFile(call, "write", filePath, { beforeBytes: null, afterBytes: 0 });
        const base = baseUrlOf(call.reply.request, publicBaseUrl);
        call.reply.header("cache-control", "no-store");
        return {
          upload_id: uploadId,
          parts: Array.from({ length: partCount }, (_, index) => ({
            part_number: index + 1,
            url: `${base}${PART_PATH.replace("{part_number}", String(index + 1))}?grant=${uploadId}`,
          })),
        };
      },
    }),
    operation("POST", `${PATH}/cp/complete`, {
      id: "completeUpload",
      summary: "Finish an upload: join its parts into one file",
      access: "admin",
      body: COMPLETED,
      maxBodyBytes: 512 * 1024,
      maxValues: 3 * MAX_PARTS + 100,
      response: COMPLETED_FILE,
      errors: ["not_found"],
      handle: async (call) => {
        const { upload_id: uploadId, file_path: filePath, parts } = call.body;
        const tags = parts.map(({ part_number: partNumber, etag }) => ({ partNumber, etag }));
        const done = await volumes.complete(call.projectId, { uploadId, filePath, tags });
        await recordFile(call, "write", filePath, done);
        return { file_path: filePath, size_bytes: done.afterBytes };
      },
    }),
    operation("GET", `${PATH}/download`, {
      id: "offerFile",
      summary: "Create a download URL for a file; it works for an hour, without a token",
      access: "deploy",
      query: z.object({ file_path: FILE_PATH }),
      response: OFFERED_FILE,
      errors: ["not_found"],
      handle: async ({ projectId, query, reply }) => {
        const grant = await volumes.offer(projectId, query.file_path);
        reply.header("cache-control", "no-store");
        return { url: `${baseUrlOf(reply.request, publicBaseUrl)}${DOWNLOAD_PATH}?grant=${grant}` };
      },
    }),
    operation("DELETE", `${PATH}/rm`, {
      id: "removeFile",
      summary: "Remove a file, or a folder if the path ends with /",
      access: "admin",
      query: z.object({ file_path: FILE_PATH }),
      response: REMOVED_FILE,
      errors: ["not_found"],
      handle: async (call) => {
        const { file_path: filePath } = call.query;
        const { beforeBytes } = await volumes.remove(call.projectId, filePath);
        await recordFile(call, "remove", filePath, { beforeBytes, afterBytes: null });
        return { file_path: filePath };
      },
    }),
    operation("PUT", PART_PATH, {
      id: "putPart",
      summary: "Upload one part of a file; safe to repeat",
      access: null,
      query: GRANT,
      takesBytes: true,
      response: STORED_PART,
      errors: ["not_found", "body_too_large"],
      handle: async ({ params, query, reply }) => {
        const put = (from: Readable) => volumes.put(query.grant, params.part_number, from);
        const etag = await takeBytes(reply, put, MAX_PART_BYTES);
        reply.header("etag", etag);
        return { etag };
      },
    }),
    operation("GET", DOWNLOAD_PATH, {
      id: "readFile",
      summary: "Download a file, or a range of its bytes",
      access: null,
      query: GRANT,
      givesBytes: true,
      response: z.unknown(),
      errors: ["forbidden", "not_found", "range_not_satisfiable"],
      handle: async ({ query, reply }) => {
        const file = await volumes.open(query.grant);
        if (!file) throw new AppError("forbidden", { message: "The link is invalid or has expired." });
        try {
          return send(reply, file);
        } catch (error) {
          await file.close();
          throw error;
        }
      },
    }),
  ];
}

function shown({ name, isFolder, sizeBytes, modifiedAt }: VolumeEntry): FileEntry {
  return { name, is_folder: isFolder, size_bytes: sizeBytes, last_modified: timestamp(modifiedAt) };
}

type ByteRange = { readonly first: number; readonly last: number };

const RANGE = /^bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))$/;

/** The range of a Range header: null for the whole file, also for several ranges; "none" if it has no such bytes. */
export function readRange(header: string | undefined, sizeBytes: number): ByteRange | "none" | null {
  const [, from, to, suffix] = RANGE.exec(header ?? "") ?? [];
  if (suffix !== undefined) {
    const count = Math.min(Number(suffix), sizeBytes);
    return count === 0 ? "none" : { first: sizeBytes - count, last: sizeBytes - 1 };
  }
  if (from === undefined) return null;
  const first = Number(from);
  const last = to === undefined || to === "" ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1);
  if (to && Number(to) < first) return null; // Not a range: ignored.
  return first >= sizeBytes ? "none" : { first, last };
}

function send(reply: FastifyReply, file: OpenFile & { readonly name: string }): FastifyReply {
  const { method, headers } = reply.request;
  const { sizeBytes, modifiedNs, name } = file;
  const etag = `"${sizeBytes.toString(16)}-${modifiedNs.toString(16)}"`;
  const isSame = headers["if-range"] === undefined || headers["if-range"] === etag;
  const range = isSame && method === "GET" ? readRange(headers.range, sizeBytes) : null;
  if (range === "none") {
    const unsatisfied = { "content-range": `bytes */${sizeBytes}` };
    throw new AppError("range_not_satisfiable", { headers: unsatisfied });
  }
  const { first, last } = range ?? { first: 0, last: sizeBytes - 1 };
  reply.headers({
    "content-type": "application/octet-stream",
    "content-length": String(last - first + 1),
    "content-disposition": `attachment; filename*=UTF-8''${encoded(name)}`,
    "content-security-policy": "sandbox",
    "accept-ranges": "bytes",
    "cache-control": "private, no-store",
    "last-modified": new Date(Number(modifiedNs / 1_000_000n)).toUTCString(),
    etag,
    ...(range && { "content-range": `bytes ${first}-${last}/${sizeBytes}` }),
  });
  const sent = method === "HEAD" ? { first: 0, last: -1 } : { first, last };
  return reply.code(range ? 206 : 200).send(file.bytes(sent));
}

/** For a header: everything but letters, digits and a few marks as bytes in hex. */
function encoded(name: string): string {
  return encodeURIComponent(name).replaceAll(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`);
}
