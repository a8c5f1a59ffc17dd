import type { CallLimits, Role } from "../../src/model/roles.ts";
import type { TestService } from "./service.ts";

const HOUR_MS = 3_600_000;

/** A token of some role, and the account it speaks for. */
export type Issued = { readonly token: string; readonly accountId: string };

/** An account of role `call` that may call those apps, with whatever else limits it. */
export async function callAccount(
  on: TestService,
  limits: Partial<CallLimits> & Pick<CallLimits, "apps">,
): Promise<Issued> {
  const { tokens, owner } = on.service;
  return await tokens.issue({
    projectId: owner.projectId,
    name: "page",
    role: "call",
    limits: { functions: null, origins: null, callsPerMinute: null, ...limits },
    expiresAt: Date.now() + HOUR_MS,
  });
}

/** An account of another role. */
export async function account(on: TestService, role: Exclude<Role, "call">): Promise<Issued> {
  const { tokens, owner } = on.service;
  const { projectId } = owner;
  return await tokens.issue({ projectId, name: role, role, expiresAt: Date.now() + HOUR_MS });
}

/** A token for an end user of an account of role `call`. */
export async function userToken(
  on: TestService,
  { accountId }: Pick<Issued, "accountId">,
  user: string,
  lifeMs = HOUR_MS,
): Promise<string> {
  const { tokens, owner } = on.service;
  const issued = await tokens.issueForUser(owner.projectId, accountId, { user, lifeMs });
  if (!issued) throw new Error(`there is no account ${accountId} of role call`);
  return issued.token;
}
