import path from "node:path";
import type { FastifyInstance } from "fastify";
import { PACKAGE_DIR } from "../config/package-files.ts";
import { AppError } from "../model/errors.ts";
import { refuseOthers } from "./api/mount.ts";
import { readFiles, sendFile } from "./static-files.ts";
import type { WebFile } from "./static-files.ts";

export type GuideParts = {
  /** Where the built guide lies; by default beside the code. */
  readonly guideDir?: string;
};

const NOT_BUILT = "The guide is not built. In a clone: npm run build:guide\n";
/** Everything the pages need comes with them; they ask nobody else and are shown in no frame. */
const HEADERS = {
  "cache-control": "no-cache",
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join("; "),
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};

/** Serves the guide, which is the documents of this release, under `/guide/`. */
export function guideRoutes(app: FastifyInstance, { guideDir }: GuideParts): void {
  let files: Map<string, WebFile> | null = null;
  // Its pages link to each other from their folder, so the address has to end with a slash.
  app.get("/guide", (_, reply) => reply.header("location", "/guide/").code(308).send());
  app.get<{ Params: { "*": string } }>("/guide/*", (request, reply) => {
    // Read when somebody first looks: no start waits for it.
    files ??= readFiles(guideDir ?? path.join(PACKAGE_DIR, "dist", "guide"));
    if (files.size === 0) return reply.code(503).type("text/plain; charset=utf-8").send(NOT_BUILT);
    const file = files.get(`/${request.params["*"] || "index.html"}`);
    if (!file) throw new AppError("not_found");
    return sendFile(file, request, reply.headers(HEADERS));
  });
  for (const url of ["/guide", "/guide/*"]) refuseOthers(app, url, ["GET"]);
}
