import type { AppError } from "../model/errors.ts";

/** What to tell who calls an app that takes no calls. */
export type WhyAbsent = (key: { readonly projectId: string; readonly name: string }) => Promise<AppError>;
