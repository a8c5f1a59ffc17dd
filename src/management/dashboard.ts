import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { PACKAGE_DIR } from "../config/package-files.ts";
import type { Installation } from "../shapes/installation.ts";
import { apiUrlOf } from "./api/base-url.ts";
import { refuseOthers } from "./api/mount.ts";

export type DashboardParts = {
  readonly publicApiUrl: string | null;
  readonly apiPort: () => number;
  readonly build: { readonly version: string };
  readonly addresses: { readonly sendsMail: boolean };
  /** Where the built dashboard lies; by default beside the code. */
  readonly webDir?: string;
};

/** A file of the dashboard, in the forms that browsers ask for. */
type WebFile = {
  readonly type: string;
  readonly etag: string;
  readonly plain: Buffer;
  readonly packed: { readonly br: Buffer; readonly gzip: Buffer } | null;
};

/** From the sources, and from the package. */
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
/** What the page is told of the service stands in its head. */
const FILLED_IN = "%MILLRACE%";
/** Names with a hash in them never mean another content. */
const FOR_EVER = "public, max-age=31536000, immutable";
/** Where the dashboard's own pages are; everything else is the API's or nothing. */
const PAGES = [
  "/",
  "/setup",
  "/sign-in",
  "/password",
  "/forgotten",
  "/invitation",
  "/prove",
  "/device",
  "/projects/*",
];
const NOT_BUILT = "The dashboard is not built. In a clone: npm run build:web\n";

/** Serves the dashboard: its files, and its one page at every address that it knows itself. */
export function dashboardRoutes(app: FastifyInstance, parts: DashboardParts): void {
  const files = readFiles(parts.webDir ?? findWebDir());
  const page = files.get("/index.html");
  for (const url of PAGES) {
    app.get(url, (request, reply) => {
      if (page) return sendPage(page.plain, request, reply, parts);
      return reply.code(503).type("text/plain; charset=utf-8").send(NOT_BUILT);
    });
    refuseOthers(app, url, ["GET"]);
  }
  for (const [url, file] of files) {
    if (url === "/index.html") continue;
    const caching = url.startsWith("/assets/") ? FOR_EVER : "no-cache";
    app.get(url, (request, reply) => sendFile(file, request, reply.header("cache-control", caching)));
    refuseOthers(app, url, ["GET"]);
  }
}

function findWebDir(): string {
  const dir = path.join(PACKAGE_DIR, "dist", "web");
  return existsSync(path.join(dir, "index.html")) ? dir : "";
}

/** All of them, in memory: half a megabyte, and no path of a request ever becomes one of a file. */
function readFiles(dir: string): Map<string, WebFile> {
  const files = new Map<string, WebFile>();
  if (dir === "") return files;
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    const type = TYPES[path.extname(entry.name)];
    if (!entry.isFile() || type === undefined) continue;
    const file = path.join(entry.parentPath, entry.name);
    const plain = readFileSync(file);
    const quality = { [constants.BROTLI_PARAM_QUALITY]: 5 };
    const packed = { br: brotliCompressSync(plain, { params: quality }), gzip: gzipSync(plain) };
    const etag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
    files.set(`/${path.relative(dir, file)}`, { type, etag, plain, packed });
  }
  return files;
}

function sendFile(
  { type, etag, plain, packed }: WebFile,
  { headers }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  reply.headers({ "content-type": type, vary: "Accept-Encoding", etag });
  if (headers["if-none-match"] === etag) return reply.code(304).send();
  const accepted = headers["accept-encoding"] ?? "";
  for (const encoding of ["br", "gzip"] as const) {
    if (packed && new RegExp(String.raw`\b${encoding}\b(?!\s*;\s*q=0)`).test(accepted)) {
      return reply.header("content-encoding", encoding).send(packed[encoding]);
    }
  }
  return reply.send(plain);
}

function sendPage(
  page: Buffer,
  request: FastifyRequest,
  reply: FastifyReply,
  { publicApiUrl, apiPort, build, addresses }: DashboardParts,
): FastifyReply {
  const apiUrl = apiUrlOf(request, publicApiUrl, apiPort());
  const { version } = build;
  const told: Installation = { apiUrl, version, sendsMail: addresses.sendsMail };
  const html = page.toString().replace(FILLED_IN, () => escapeAttribute(JSON.stringify(told)));
  return reply
    .headers({
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-cache",
      "content-security-policy": policyFor(new URL(apiUrl).origin, request),
      "x-frame-options": "DENY",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
    })
    .send(html);
}

/** Nothing from elsewhere and nothing in the page itself; calls go to this service alone. */
function policyFor(apiOrigin: string, { host, protocol }: FastifyRequest): string {
  const sockets = `${protocol === "https" ? "wss" : "ws"}://${host}`;
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "font-src 'self'",
    `connect-src 'self' ${apiOrigin} ${sockets}`,
    "form-action 'none'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join("; ");
}

function escapeAttribute(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
}
