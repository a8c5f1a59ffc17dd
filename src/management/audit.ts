import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import { AUDIT } from "../shapes/audit.ts";
import { timestamp } from "../shapes/timestamp.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { NEXT_TOKEN, PROJECT_PATH, pageSize } from "./api/schemas.ts";

export type AuditParts = { readonly audit: Audit };

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
      response: AUDIT,
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
