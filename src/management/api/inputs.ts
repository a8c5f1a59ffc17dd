import { z } from "zod";
import type { App } from "../../model/app.ts";
import { AppError } from "../../model/errors.ts";
import { appId, RUN_ID } from "../../model/names.ts";
import { MEMBER_ROLES } from "../../model/roles.ts";
import { MAX_QUOTAS, type QuotaName, type Quotas } from "../../model/usage.ts";
import { MAX_TOKEN_CHARS } from "../../shapes/common.ts";
import type { Store } from "../../store/store.ts";

export const MEMBER_ROLE = z.enum(MEMBER_ROLES);

/** The start of a page, from the previous answer; empty at first. */
export const NEXT_TOKEN = z.string().max(MAX_TOKEN_CHARS);

/** A time, as epoch milliseconds. */
export const TIME = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));

export function pageSize(byDefault: number, max: number): z.ZodDefault<z.ZodCoercedNumber> {
  return z.coerce.number().int().min(1).max(max).default(byDefault);
}

/** One line of text. */
export function line(maxChars: number): z.ZodString {
  return z
    .string()
    .trim()
    .min(1)
    .max(maxChars)
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, "has control characters");
}

/** Text with line breaks and tabs. */
export function prose(maxChars: number): z.ZodString {
  return z
    .string()
    .max(maxChars)
    .regex(/^(?:[^\p{Cc}\p{Cs}]|[\t\n\r])*$/u, "has control characters");
}

const limit = (name: QuotaName) => z.int().min(1).max(MAX_QUOTAS[name]).nullish();

/** What an account or a project may use; a missing limit is none, and null takes all of them away. */
export const QUOTAS = z
  .strictObject({
    callsPerMinute: limit("callsPerMinute"),
    concurrentRuns: limit("concurrentRuns"),
    gpuSecondsPerDay: limit("gpuSecondsPerDay"),
  })
  .transform((given): Quotas => {
    const { callsPerMinute = null, concurrentRuns = null, gpuSecondsPerDay = null } = given;
    return { callsPerMinute, concurrentRuns, gpuSecondsPerDay };
  })
  .nullable();

/** The token of a list sorted by id: the id of the previous page's last entry, or empty. */
export const ID_TOKEN = NEXT_TOKEN.refine(
  (token) => token === "" || RUN_ID.test(idOf(token)),
  "does not belong to this list",
).transform(idOf);

/** The token of the page after that id; empty at the end of the list. */
export function tokenOf(id: string | null): string {
  return id === null ? "" : Buffer.from(id).toString("base64url");
}

function idOf(token: string): string {
  return Buffer.from(token, "base64url").toString();
}

/** The error for one member of the input. */
export function badField(field: string, problem: string): AppError {
  return new AppError("bad_request", { message: `${field}: ${problem}`, details: [{ field, problem }] });
}

/** The app of the path; throws `app_not_found`. */
export async function findApp(
  store: Store,
  { project_id: projectId, app_id: id }: { readonly project_id: string; readonly app_id: string },
): Promise<App> {
  const name = nameIn(projectId, id);
  const app = name === null ? null : await store.apps.find({ projectId, name });
  if (!app) throw new AppError("app_not_found");
  return app;
}

/** The name in the id of an app of that project; null for an id of another form. */
export function nameIn(projectId: string, id: string): string | null {
  const prefix = appId(projectId, "");
  return id.startsWith(prefix) ? id.slice(prefix.length) : null;
}
