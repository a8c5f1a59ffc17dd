import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { PACKAGE_DIR } from "../../config/package-files.ts";
import { AppError } from "../../model/errors.ts";
import type { Installation } from "../../shapes/installation.ts";
import { apiUrlOf } from "../api/addresses.ts";
import type { ManagementParts } from "../parts.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
};

/** The best one first. */
const COMPRESS = {
  br: (plain: Buffer) => brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  gzip: (plain: Buffer) => gzipSync(plain),
} as const;
type Encoding = keyof typeof COMPRESS;

type WebFile = ReturnType<typeof webFile>;

/** A built file. It is compressed at its first request, so that the start does not wait for it. */
function webFile(type: string, plain: Buffer) {
  const etag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
  return { type, plain, etag, compressed: new Map<Encoding, Buffer>() };
}

/** The best encoding that the browser accepts; undefined for none, and for images, which are compressed already. */
function encodingFor({ type }: WebFile, accepted = ""): Encoding | undefined {
  if (type === TYPES[".png"]) return undefined;
  const takes = (name: Encoding): boolean => new RegExp(String.raw`\b${name}\b(?!\s*;\s*q=0)`).test(accepted);
  return (Object.keys(COMPRESS) as Encoding[]).find(takes);
}

/**
 * Reads all files of a built folder into memory, about 1 MB, by their path: so no path of a request becomes a path of a
 * file. Empty if the folder has no `index.html`, because it was not built.
 */
function readFiles(dir: string): Map<string, WebFile> {
  const files = new Map<string, WebFile>();
  if (!existsSync(path.join(dir, "index.html"))) return files;
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    const type = TYPES[path.extname(entry.name)];
    if (!entry.isFile() || type === undefined) continue;
    const file = path.join(entry.parentPath, entry.name);
    files.set(`/${path.relative(dir, file)}`, webFile(type, readFileSync(file)));
  }
  return files;
}

/** Sends a file, compressed if the browser accepts it, or 304 if it has not changed. */
function sendFile(file: WebFile, { headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.headers({ "content-type": file.type, vary: "Accept-Encoding", etag: file.etag });
  if (headers["if-none-match"] === file.etag) return reply.code(304).send();
  const encoding = encodingFor(file, headers["accept-encoding"]?.toString());
  if (!encoding) return reply.send(file.plain);
  const compressed = file.compressed.get(encoding) ?? COMPRESS[encoding](file.plain);
  file.compressed.set(encoding, compressed);
  return reply.header("content-encoding", encoding).send(compressed);
}

function sendNotBuilt(reply: FastifyReply, what: string, script: string): FastifyReply {
  const text = `${what} is not built. In a clone: npm run ${script}\n`;
  return reply.code(503).type("text/plain; charset=utf-8").send(text);
}

/** Replaced in the page's head by data about the service. */
const FILLED_IN = "%MILLRACE%";
const IMMUTABLE = "public, max-age=31536000, immutable";
const PAGES = [
  "/",
  "/setup",
  "/sign-in",
  "/password",
  "/forgotten",
  "/invitation",
  "/prove",
  "/device",
  "/docs",
  "/projects/*",
];

/** Serves the dashboard: its files, and its one HTML page at each path of `PAGES`. */
export function dashboardRoutes(app: FastifyInstance, parts: ManagementParts): void {
  const files = readFiles(parts.webDir ?? path.join(PACKAGE_DIR, "dist", "web"));
  const page = files.get("/index.html");
  for (const url of PAGES) {
    app.get(url, (request, reply) => {
      if (page) return sendPage(page.plain, request, reply, parts);
      return sendNotBuilt(reply, "The dashboard", "build:web");
    });
  }
  for (const [url, file] of files) {
    if (url === "/index.html") continue;
    const caching = url.startsWith("/assets/") ? IMMUTABLE : "no-cache";
    app.get(url, (request, reply) => sendFile(file, request, reply.header("cache-control", caching)));
  }
}

function sendPage(
  page: Buffer,
  request: FastifyRequest,
  reply: FastifyReply,
  { publicApiUrl, apiPort, build, sendsMail }: ManagementParts,
): FastifyReply {
  const apiUrl = apiUrlOf(request, publicApiUrl, apiPort());
  const { version } = build;
  const installation: Installation = { apiUrl, version, sendsMail };
  const html = page.toString().replace(FILLED_IN, () => escapeAttribute(JSON.stringify(installation)));
  const { host, protocol } = request;
  const { origin } = new URL(apiUrl);
  const sockets = `${protocol === "https" ? "wss" : "ws"}://${host} ${origin.replace(/^http/, "ws")}`;
  const calls = `connect-src 'self' ${origin} ${sockets}`;
  return reply
    .headers(pageHeaders("img-src 'self' data: blob:", "font-src 'self'", calls))
    .headers({ "content-type": "text/html; charset=utf-8", "cross-origin-opener-policy": "same-origin" })
    .send(html);
}

/** The headers of a page that may not be framed, loads only its own files, and runs no inline code. */
function pageHeaders(...sources: readonly string[]): Record<string, string> {
  const own = ["default-src 'none'", "script-src 'self'", "style-src 'self'"];
  const never = ["form-action 'none'", "frame-ancestors 'none'", "base-uri 'none'"];
  return {
    "cache-control": "no-cache",
    "content-security-policy": [...own, ...sources, ...never].join("; "),
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
  };
}

function escapeAttribute(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
}

const GUIDE_HEADERS = pageHeaders("img-src 'self'", "connect-src 'self'");

/** Serves the guide, the documents of this release, under `/guide/`. */
export function guideRoutes(app: FastifyInstance, { guideDir }: ManagementParts): void {
  let files: Map<string, WebFile> | null = null;
  // The links between its pages are relative, so the path must end with a slash.
  app.get("/guide", (_, reply) => reply.header("location", "/guide/").code(308).send());
  app.get<{ Params: { "*": string } }>("/guide/*", (request, reply) => {
    // Read at the first request, so that the start does not wait for it.
    files ??= readFiles(guideDir ?? path.join(PACKAGE_DIR, "dist", "guide"));
    if (files.size === 0) return sendNotBuilt(reply, "The guide", "build:guide");
    const file = files.get(`/${request.params["*"] || "index.html"}`);
    if (!file) throw new AppError("not_found");
    return sendFile(file, request, reply.headers(GUIDE_HEADERS));
  });
}
