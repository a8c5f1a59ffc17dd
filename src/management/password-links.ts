import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import type { PasswordLinks } from "../identity/password-links.ts";
import { PASSWORD_LINK } from "../shapes/people.ts";
import { timestamp } from "../shapes/timestamp.ts";
import { baseUrlOf } from "./api/base-url.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { EMAIL } from "./signed-in.ts";

export type PasswordLinkParts = {
  readonly passwordLinks: PasswordLinks;
  readonly audit: Pick<Audit, "record">;
  readonly publicBaseUrl: string | null;
  /** The default project: in its audit log the operator's deeds are written down. */
  readonly projectId: string;
};

const MEANT = z.union([z.object({ personId: z.string().min(1).max(100) }), z.object({ email: EMAIL })]);

/** Links that set a password, for the one who runs the installation. */
export function passwordLinkOperations(parts: PasswordLinkParts): AnyOperation[] {
  return [
    operation({
      method: "POST",
      path: "/v2/password-links",
      id: "makePasswordLink",
      tag: "Sign-in",
      summary: "Create a password-reset link for a person; the only way to reset a password without mail",
      access: "operator",
      body: MEANT,
      response: PASSWORD_LINK,
      handle: async ({ body, principal, ip, requestId, reply }) => {
        const { passwordLinks, audit, publicBaseUrl, projectId } = parts;
        const { link, people } = await passwordLinks.make(body);
        const [only] = people;
        if (link !== null && only) {
          const change = { projectId, before: null, after: null, principal, ip, requestId };
          await audit.record({ ...change, action: "person.password-link", target: only.id });
        }
        reply.header("cache-control", "no-store");
        const base = baseUrlOf(reply.request, publicBaseUrl);
        return {
          url: link === null ? null : `${base}/password#${link}`,
          people: people.map(({ id: personId, email, provenAt, createdAt, projectIds }) => ({
            personId,
            email,
            isProven: provenAt !== null,
            createdAt: timestamp(createdAt),
            projectIds: [...projectIds],
          })),
        };
      },
    }),
  ];
}
