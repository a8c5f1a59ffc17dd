import * as z from "zod/mini";

/** What a secret may be called. */
export const SECRET_NAME = /^[A-Za-z0-9_.-]{1,253}$/;
const MAX_VALUE_CHARS = 64 * 1024;

/** The secrets of a project or an app: a map that is replaced as a whole. */
export const SECRET_MAP = z.record(
  z.string().check(z.regex(SECRET_NAME)),
  z.string().check(
    z.maxLength(MAX_VALUE_CHARS),
    z.refine((value) => !value.includes("\0"), "holds a NUL character"),
  ),
);
