import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { pagesOf } from "./api/pages.ts";
import { NEXT_TOKEN, PROJECT_PATH, TIMESTAMP, pageSize, timestamp } from "./api/schemas.ts";

export type AuditParts = { readonly audit: Audit };

const ENTRY = z.object({
  id: z.string(),
  createdAt: TIMESTAMP,
  actor: z.string().nullable(),
  action: z.string(),
  target: z.string(),
  before: z.unknown(),
  after: z.unknown(),
  ip: z.string(),
  requestId: z.string(),
});

/** What was changed in a project, and by whom. */
export function auditOperations({ audit }: AuditParts): AnyOperation[] {
  return [
    operation({
      method: "GET",
      path: "/v2/projects/{project_id}/audit",
      id: "listAudit",
      tag: "Audit",
      summary: "List every change in a project, newest first",
      access: "admin",
      params: PROJECT_PATH,
      query: z.object({
        pageSize: pageSize(50, 1000),
        nextToken: NEXT_TOKEN.regex(/^\d{0,15}$/, "does not belong to this list").optional(),
      }),
      response: pagesOf(ENTRY),
      handle: async ({ params, query }) => {
        const { pageSize: limit, nextToken = "" } = query;
        const found = await audit.list({
          projectId: params.project_id,
          limit: limit + 1,
          ...(nextToken !== "" && { before: Number(nextToken) }),
        });
        const page = found.slice(0, limit);
        const last = found.length > limit ? page.at(-1)?.number : undefined;
        return {
          items: page.map(({ number, createdAt, ...rest }) => ({
            ...rest,
            id: String(number),
            createdAt: timestamp(createdAt),
          })),
          nextToken: last === undefined ? "" : String(last),
        };
      },
    }),
  ];
}
