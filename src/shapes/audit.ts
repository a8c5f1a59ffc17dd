import * as z from "zod/mini";
import { TIMESTAMP, pagesOf } from "./common.ts";

const ENTRY = z.object({
  id: z.string(),
  createdAt: TIMESTAMP,
  /** The id of a service account or a person. */
  actor: z.nullable(z.string()),
  action: z.string(),
  target: z.string(),
  before: z.unknown(),
  after: z.unknown(),
  ip: z.string(),
  requestId: z.string(),
});
/** One change of a project. */
export type AuditEntry = z.infer<typeof ENTRY>;

/** Every change in a project, a page of them. */
export const AUDIT = pagesOf(ENTRY);
