import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Reader } from "./readers.ts";

/** Where blobs are kept. */
export type BlobAddress =
  | { readonly kind: "directory"; readonly path: string }
  | {
      readonly kind: "s3";
      readonly bucket: string;
      /** Before the name of every object; empty, or with a slash at its end. */
      readonly prefix: string;
      /** Null for Amazon's own. */
      readonly endpoint: string | null;
      /** Null for what the environment says. */
      readonly region: string | null;
      /** The bucket is named in the path, not in the host. */
      readonly isPathStyle: boolean;
    };

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
/** What needs no encoding in an address, so that there is one way to sign it. */
const PREFIX = /^(?:[\w.-]+\/)*$/;
const REGION = /^[a-z0-9-]{1,64}$/;
const OPTIONS = new Set(["endpoint", "region", "path_style"]);
const MAX_CHARS = 4096;

/** A directory by its whole path, or a bucket of an S3-compatible store. Credentials do not belong in it. */
export const blobAddress: Reader<BlobAddress> = {
  expects:
    "a whole path, or an address such as s3://bucket/prefix?endpoint=https://s3.example.com&region=eu-1",
  read: (raw) => (typeof raw === "string" && raw.length <= MAX_CHARS ? readAddress(raw) : undefined),
};

function readAddress(text: string): BlobAddress | undefined {
  if (text.includes("\0")) return undefined;
  if (path.isAbsolute(text)) return { kind: "directory", path: path.resolve(text) };
  const url = URL.parse(text);
  if (url?.protocol === "file:" && url.host === "") return { kind: "directory", path: fileURLToPath(url) };
  return url?.protocol === "s3:" ? readBucket(url) : undefined;
}

function readBucket(url: URL): BlobAddress | undefined {
  const { hostname: bucket, searchParams: options, username, password, port, hash } = url;
  const folder = url.pathname.replace(/^\/|\/$/g, "");
  const prefix = folder === "" ? "" : `${folder}/`;
  const endpoint = options.get("endpoint");
  const region = options.get("region");
  const pathStyle = options.get("path_style") ?? "false";
  const isKnown = [...options.keys()].every((name) => OPTIONS.has(name)) && options.size <= OPTIONS.size;
  if (username + password + port + hash !== "" || !isKnown) return undefined;
  if (!BUCKET.test(bucket) || !PREFIX.test(prefix) || prefix.length > 512) return undefined;
  if (!/^(?:true|false)$/.test(pathStyle) || (region !== null && !REGION.test(region))) return undefined;
  if (endpoint !== null && !isOrigin(endpoint)) return undefined;
  const origin = endpoint === null ? null : new URL(endpoint).origin;
  return { kind: "s3", bucket, prefix, endpoint: origin, region, isPathStyle: pathStyle === "true" };
}

/** A scheme and a host, and nothing after them. */
function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  const isHttp = url?.protocol === "https:" || url?.protocol === "http:";
  return isHttp && url.pathname === "/" && url.search + url.hash + url.username + url.password === "";
}
