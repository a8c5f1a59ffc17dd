import * as z from "zod/mini";

/** A time as the API shows it: RFC 3339, UTC. */
export const TIMESTAMP = z.iso.datetime();

/** The same with nine digits of a second, for lines of logs. */
export const EXACT_TIMESTAMP = z.iso.datetime({ precision: 9 });

export const FAULT = z.object({ code: z.string(), message: z.string() });
export const DONE = z.object({});
export const ID = z.object({ id: z.string() });

export const MAX_TOKEN_CHARS = 1000;
/** The start of a list's next page; opaque to callers, empty at the end. */
export const NEXT_TOKEN = z.string().check(z.maxLength(MAX_TOKEN_CHARS));

export function pagesOf<Entry extends z.core.$ZodType>(entry: Entry) {
  return z.object({ items: z.array(entry), nextToken: NEXT_TOKEN });
}

/** Epoch milliseconds as the API shows them. */
export function timestamp(at: number): string {
  return new Date(at).toISOString();
}
