import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
};

const PACKERS = {
  br: (plain: Buffer) => brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  gzip: (plain: Buffer) => gzipSync(plain),
} as const;
type Encoding = keyof typeof PACKERS;
const ENCODINGS = ["br", "gzip"] as const satisfies readonly Encoding[];

/** A built file, in the forms that browsers ask for. */
export class WebFile {
  readonly type: string;
  readonly plain: Buffer;
  readonly etag: string;
  readonly #packed = new Map<Encoding, Buffer>();

  constructor(type: string, plain: Buffer) {
    this.type = type;
    this.plain = plain;
    this.etag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
  }

  /** Packed when it is first asked for, so that no start waits for it. */
  packed(encoding: Encoding): Buffer {
    const packed = this.#packed.get(encoding) ?? PACKERS[encoding](this.plain);
    this.#packed.set(encoding, packed);
    return packed;
  }

  /** The best form that a browser takes; a picture is packed already. */
  encodingFor(accepted: string): Encoding | null {
    if (this.type === TYPES[".png"]) return null;
    const takes = (name: Encoding): boolean =>
      new RegExp(String.raw`\b${name}\b(?!\s*;\s*q=0)`).test(accepted);
    return ENCODINGS.find(takes) ?? null;
  }
}

/**
 * All files below a built folder by their path, in memory: a megabyte, and no path of a request ever becomes one of a
 * file. A folder without an `index.html` was not built, and gives none.
 */
export function readFiles(dir: string): Map<string, WebFile> {
  const files = new Map<string, WebFile>();
  if (!existsSync(path.join(dir, "index.html"))) return files;
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    const type = TYPES[path.extname(entry.name)];
    if (!entry.isFile() || type === undefined) continue;
    const file = path.join(entry.parentPath, entry.name);
    files.set(`/${path.relative(dir, file)}`, new WebFile(type, readFileSync(file)));
  }
  return files;
}

/** Answers with a file, packed as the browser likes, or that it has not changed. */
export function sendFile(file: WebFile, { headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.headers({ "content-type": file.type, vary: "Accept-Encoding", etag: file.etag });
  if (headers["if-none-match"] === file.etag) return reply.code(304).send();
  const encoding = file.encodingFor(headers["accept-encoding"] ?? "");
  if (encoding === null) return reply.send(file.plain);
  return reply.header("content-encoding", encoding).send(file.packed(encoding));
}
