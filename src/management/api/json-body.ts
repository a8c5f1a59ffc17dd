import { AppError } from "../../model/errors.ts";

const MAX_DEPTH = 64;
const UTF8 = /^\s*"?utf-?8"?\s*$/i;
const CHARSET = /;\s*charset=([^;]*)/i;
const decoder = new TextDecoder("utf-8", { fatal: true });

type BodyHeaders = {
  readonly "content-type"?: string | undefined;
  readonly "content-encoding"?: string | undefined;
};

/** The JSON of a body; undefined for an empty one. Throws `unsupported_media_type` and `invalid_json`. */
export function readJson(bytes: Buffer, headers: BodyHeaders): unknown {
  refuseEncodings(headers);
  if (bytes.length === 0) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(bytes));
  } catch {
    throw new AppError("invalid_json");
  }
  refuseOddities(value);
  return value;
}

/** Throws `invalid_json` for what no part of the service could store or print: see `isPlainText`. */
export function refuseOddities(value: unknown, depth = 0): void {
  if (typeof value === "string") {
    if (!isPlainText(value)) throw new AppError("invalid_json");
  } else if (typeof value === "object" && value !== null) {
    if (depth >= MAX_DEPTH) throw new AppError("invalid_json");
    for (const [name, member] of Object.entries(value)) {
      if (!isPlainText(name)) throw new AppError("invalid_json");
      refuseOddities(member, depth + 1);
    }
  }
}

/** Whether a text has no lone surrogates, which have no UTF-8, and no NUL, which Postgres does not take. */
export function isPlainText(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

/** Only UTF-8 as it is; throws `unsupported_media_type`. */
function refuseEncodings(headers: BodyHeaders): void {
  const charset = CHARSET.exec(headers["content-type"] ?? "")?.[1];
  const encoding = headers["content-encoding"] ?? "identity";
  if ((charset === undefined || UTF8.test(charset)) && encoding.toLowerCase() === "identity") return;
  throw new AppError("unsupported_media_type");
}
