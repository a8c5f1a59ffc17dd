import { z } from "zod";
import { AppError } from "../model/errors.ts";

const DAY_MS = 86_400_000;
const MAX_AHEAD_MS = 10 * 365 * DAY_MS;

/** A time, or a bare date, which means the end of that day in UTC; in epoch milliseconds. */
const EXPIRY = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()])
  .transform((text) => (text.length === 10 ? Date.parse(text) + DAY_MS - 1 : Date.parse(text)))
  .nullish();

/** The members of a body that say when something expires: one thing in the spellings that clients use. */
export const EXPIRY_MEMBERS = {
  expiresAt: EXPIRY,
  expires_at: EXPIRY,
  expiry: EXPIRY,
  expiryDate: EXPIRY,
};

type ExpiryMembers = { readonly [Name in keyof typeof EXPIRY_MEMBERS]?: number | null | undefined };

/** The expiry that a body names, null where it names none; throws `bad_request` for a time that cannot be meant. */
export function expiryOf(body: ExpiryMembers, now: number): number | null {
  const given = new Set<number>();
  for (const name of Object.keys(EXPIRY_MEMBERS) as (keyof ExpiryMembers)[]) {
    const value = body[name];
    if (value !== undefined && value !== null) given.add(value);
  }
  if (given.size > 1) throw refusal("is given twice, with different values");
  const [expiresAt = null] = given;
  if (expiresAt === null) return null;
  if (expiresAt <= now) throw refusal("has passed already");
  if (expiresAt > now + MAX_AHEAD_MS) throw refusal("is more than ten years ahead");
  return expiresAt;
}

/** The answer to an expiry that is not taken. */
export function refusal(problem: string): AppError {
  const details = [{ field: "expiresAt", problem }];
  return new AppError("bad_request", { message: `expiresAt: ${problem}`, details });
}
