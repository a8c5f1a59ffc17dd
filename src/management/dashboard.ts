import path from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { PACKAGE_DIR } from "../config/package-files.ts";
import type { Installation } from "../shapes/installation.ts";
import { apiUrlOf } from "./api/base-url.ts";
import { refuseOthers } from "./api/mount.ts";
import { readFiles, sendFile } from "./static-files.ts";

export type DashboardParts = {
  readonly publicApiUrl: string | null;
  readonly apiPort: () => number;
  readonly build: { readonly version: string };
  readonly addresses: { readonly sendsMail: boolean };
  /** Where the built dashboard lies; by default beside the code. */
  readonly webDir?: string;
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
  "/docs",
  "/projects/*",
];
const NOT_BUILT = "The dashboard is not built. In a clone: npm run build:web\n";

/** Serves the dashboard: its files, and its one page at every address that it knows itself. */
export function dashboardRoutes(app: FastifyInstance, parts: DashboardParts): void {
  const files = readFiles(parts.webDir ?? path.join(PACKAGE_DIR, "dist", "web"));
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
  const sockets = `${protocol === "https" ? "wss" : "ws"}://${host} ${apiOrigin.replace(/^http/, "ws")}`;
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
