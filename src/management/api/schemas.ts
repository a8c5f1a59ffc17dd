import { z } from "zod";
import { MEMBER_ROLES } from "../../model/roles.ts";
import { MAX_TOKEN_CHARS } from "../../shapes/common.ts";

export const PROJECT_PATH = z.object({ project_id: z.string().min(1).max(100) });
export const APP_PATH = PROJECT_PATH.extend({ app_id: z.string().min(1).max(200) });

/** What a person is in a project. */
export const MEMBER_ROLE = z.enum(MEMBER_ROLES);

/** Where a list is to go on, as it was told; empty at the start. */
export const NEXT_TOKEN = z.string().max(MAX_TOKEN_CHARS);

/** How many entries a page has. */
export function pageSize(byDefault: number, max: number): z.ZodDefault<z.ZodCoercedNumber> {
  return z.coerce.number().int().min(1).max(max).default(byDefault);
}

/** One line of text somebody gives a thing as its name. */
export function line(maxChars: number): z.ZodString {
  return z
    .string()
    .trim()
    .min(1)
    .max(maxChars)
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, "has control characters");
}

/** Text somebody writes about a thing; line breaks and tabs are part of it. */
export function prose(maxChars: number): z.ZodString {
  return z
    .string()
    .max(maxChars)
    .regex(/^(?:[^\p{Cc}\p{Cs}]|[\t\n\r])*$/u, "has control characters");
}
