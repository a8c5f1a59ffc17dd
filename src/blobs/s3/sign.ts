import { createHash, createHmac } from "node:crypto";

/** Keys that sign requests. */
export type Keys = {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Null for permanent keys. */
  readonly sessionToken: string | null;
};

/** A request as it will be sent. */
export type Unsigned = {
  readonly method: string;
  readonly host: string;
  /** Not encoded, like the query. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** By lowercase names; all of them are signed. */
  readonly headers: Readonly<Record<string, string>>;
  /** The SHA-256 of its body, in hex. */
  readonly bodyHash: string;
};

export type Scope = { readonly region: string; readonly service: string };

const ALGORITHM = "AWS4-HMAC-SHA256";

/** Signs a request with AWS Signature Version 4; returns its headers with those of the signature. */
export function sign(
  { method, host, path, query, headers, bodyHash }: Unsigned,
  { accessKeyId, secretAccessKey, sessionToken }: Keys,
  { region, service }: Scope,
  now: number,
): Record<string, string> {
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, "");
  const day = time.slice(0, 8);
  const signed: Record<string, string> = {
    ...headers,
    host,
    "x-amz-date": time,
    ...(sessionToken !== null && { "x-amz-security-token": sessionToken }),
  };
  const names = Object.keys(signed).toSorted();
  const canonical = [
    method,
    encodePath(path),
    encodeQuery(query),
    ...names.map((name) => `${name}:${(signed[name] ?? "").trim().replace(/ +/g, " ")}`),
    "",
    names.join(";"),
    bodyHash,
  ].join("\n");
  const scope = `${day}/${region}/${service}/aws4_request`;
  const text = [ALGORITHM, time, scope, createHash("sha256").update(canonical).digest("hex")].join("\n");
  const key = [day, region, service, "aws4_request"].reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`);
  const credential = `${accessKeyId}/${scope}`;
  const signature = hmac(key, text).toString("hex");
  const authorization = `${ALGORITHM} Credential=${credential}, SignedHeaders=${names.join(";")}, Signature=${signature}`;
  return { ...signed, authorization };
}

/** A path as it is sent; S3 expects it encoded once. */
export function encodePath(path: string): string {
  return path.split("/").map(encode).join("/");
}

/** A query as it is sent, in the order in which it is signed. */
export function encodeQuery(query: Unsigned["query"]): string {
  return Object.entries(query)
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted((a, b) => (a < b ? -1 : Number(a > b)))
    .join("&");
}

/** All but letters, digits and `-._~`. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (sign_) => `%${sign_.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
