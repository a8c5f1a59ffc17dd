import { z } from "zod";
import type { CallLimits, Role } from "../../model/roles.ts";
import { AppError } from "../../model/errors.ts";
import { APP_NAME, FUNCTION_NAME } from "../../model/names.ts";

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
  if (given.size > 1) throw refusal("expiresAt", "is given twice, with different values");
  const [expiresAt = null] = given;
  if (expiresAt === null) return null;
  if (expiresAt <= now) throw refusal("expiresAt", "has passed already");
  if (expiresAt > now + MAX_AHEAD_MS) throw refusal("expiresAt", "is more than ten years ahead");
  return expiresAt;
}

const MAX_NAMES = 100;
const MAX_CALLS_PER_MINUTE = 100_000;

const ORIGIN = z
  .string()
  .max(300)
  .refine(isOrigin, 'is not an origin such as "https://app.example.com": no path, no capital letters');

/** The members of a body with the limits of an account of role `call`. */
export const LIMIT_MEMBERS = {
  apps: z.array(z.string().regex(APP_NAME, "is not an app's name")).min(1).max(MAX_NAMES).nullish(),
  functions: z
    .array(z.string().regex(FUNCTION_NAME, "is not a function's name"))
    .min(1)
    .max(MAX_NAMES)
    .nullish(),
  origins: z.array(ORIGIN).min(1).max(MAX_NAMES).nullish(),
  callsPerMinute: z.int().min(1).max(MAX_CALLS_PER_MINUTE).nullish(),
};

type LimitMembers = z.output<z.ZodObject<typeof LIMIT_MEMBERS>>;

/**
 * The limits of an account of that role; null for other roles than `call`. A missing member keeps its limit, null removes
 * it. Throws `bad_request`.
 */
export function limitsOf(
  { apps, functions, origins, callsPerMinute }: LimitMembers,
  role: Role,
  before: CallLimits | null,
): CallLimits | null {
  if (role !== "call") {
    if (apps || functions || origins || callsPerMinute)
      throw refusal("role", "must be call for an account with apps, functions, origins or callsPerMinute");
    return null;
  }
  const named = apps === undefined ? before?.apps : apps;
  if (!named) throw refusal("apps", "must name the apps that an account of role call may call");
  return {
    apps: named,
    functions: functions === undefined ? (before?.functions ?? null) : functions,
    origins: origins === undefined ? (before?.origins ?? null) : origins,
    callsPerMinute: callsPerMinute === undefined ? (before?.callsPerMinute ?? null) : callsPerMinute,
  };
}

/** Throws `bad_request` for an account of role `call` that is to get another one. */
export function requireSameRole(before: Role, role: Role | undefined): void {
  if (before !== "call" || role === undefined || role === "call") return;
  throw refusal("role", "cannot be raised from call: its tokens may be public. Create another account");
}

/** Exactly as browsers send it, because it is compared as text. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.parse(text)?.origin === text;
}

/** Refuses one member of the body. */
export function refusal(field: string, problem: string): AppError {
  return new AppError("bad_request", {
    message: `${field}: ${problem}`,
    details: [{ field, problem }],
  });
}
