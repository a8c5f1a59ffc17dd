import type { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { z } from "zod";
import { MAX_PART_BYTES } from "../../apps/volumes/uploads.ts";
import type { OpenFile } from "../../apps/volumes/volume-files.ts";
import { AppError } from "../../model/errors.ts";
import { STORED_PART } from "../../shapes/projects.ts";
import { takeBytes } from "../api/bodies.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

/** Bytes of a file, the last one included. */
type ByteRange = { readonly first: number; readonly last: number };

const RANGE = /^bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))$/;

/**
 * The range in a Range header for a file of that size: null for the whole file, also for several ranges;
 * "none" if the file has no such bytes.
 */
export function readRange(header: string | undefined, sizeBytes: number): ByteRange | "none" | null {
  const [, from, to, suffix] = RANGE.exec(header ?? "") ?? [];
  if (suffix !== undefined) {
    const count = Math.min(Number(suffix), sizeBytes);
    return count === 0 ? "none" : { first: sizeBytes - count, last: sizeBytes - 1 };
  }
  if (from === undefined) return null;
  const first = Number(from);
  const last = to === undefined || to === "" ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1);
  if (to && Number(to) < first) return null; // Not a range, which counts as none asked for.
  return first >= sizeBytes ? "none" : { first, last };
}

const operation = tagged("Volumes");
/** Where a part is sent. */
export const PART_PATH = "/v2/volumes/parts/{part_number}";
/** Where a file is read. */
export const DOWNLOAD_PATH = "/v2/volumes/file";

const GRANT = z.object({ grant: z.string().min(1).max(10_000) });

/** Uploads and downloads of files. The URLs carry their own authorization, so no token is sent here. */
export function volumeFileOperations({ volumes }: Pick<ManagementParts, "volumes">): Operation[] {
  return [
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

/** For a header: everything but letters, digits and a few marks by its bytes. */
function encoded(name: string): string {
  return encodeURIComponent(name).replaceAll(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`);
}
