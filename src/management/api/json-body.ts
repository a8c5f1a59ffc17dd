import { checkJson } from "../../kit/json/check-json.ts";
import { AppError } from "../../model/errors.ts";

/** How many objects and arrays may stand inside each other, the body itself counted. */
const MAX_DEPTH = 32;
const UTF8 = /^\s*"?utf-?8"?\s*$/i;
const CHARSET = /;\s*charset=([^;]*)/i;

type BodyHeaders = {
  readonly "content-type"?: string | undefined;
  readonly "content-encoding"?: string | undefined;
};

/**
 * The JSON object of a body, of at most so many values; undefined for an empty body. Throws `unsupported_media_type`
 * and `invalid_json`. Scanned before it is parsed: what is too deep, or no object, is not built first.
 */
export function readJson(bytes: Buffer, headers: BodyHeaders, maxValues: number): unknown {
  refuseEncodings(headers);
  if (bytes.length === 0) return undefined;
  const fault = checkJson(bytes, MAX_DEPTH);
  if (fault) throw new AppError("invalid_json", { message: fault.message });
  const value: unknown = JSON.parse(bytes.toString());
  refuseOddities(value, { left: maxValues, maxValues });
  return value;
}

/** Throws for what no part of the service could store or print (see `isPlainText`), and for more than is looked at. */
function refuseOddities(value: unknown, count: { left: number; readonly maxValues: number }): void {
  count.left -= 1;
  if (count.left < 0) {
    const message = `The body has more than ${count.maxValues} values.`;
    throw new AppError("invalid_json", { message });
  }
  if (typeof value === "string") {
    if (!isPlainText(value)) throw new AppError("invalid_json");
  } else if (typeof value === "object" && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      if (!isPlainText(name)) throw new AppError("invalid_json");
      refuseOddities(member, count);
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
