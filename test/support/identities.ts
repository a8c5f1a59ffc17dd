import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import { type Role, ROLES } from "../../src/model/roles.ts";
import { claimsOf } from "./identity-site.ts";
import type { ManagementSite } from "./management-site.ts";

/** Somebody who asks: what they show, and what they may. */
export type Identity = {
  readonly name: string;
  readonly token: string | null;
  /** False for who has to be told 401 wherever a token is needed. */
  readonly isKnown: boolean;
  /** In the project that is asked about. */
  readonly role: Role | null;
  readonly isPerson: boolean;
  readonly isOperator: boolean;
  /** Of role `call`, in whichever project: an account, or one of its end users. */
  readonly isForCalls: boolean;
};

const OTHER = "p-other";
/** An account of role `call` that may call every app that these tests ask about. */
const LIMITS = { apps: ["app", "none"], functions: null, origins: null, callsPerMinute: null };
const HOUR_MS = 3_600_000;

/** Everybody there can be, on a site whose first person is its `owner`. */
export async function identitiesOf(site: ManagementSite): Promise<Identity[]> {
  const { store, tokens, owner } = site.test.service;
  const { projectId } = site;
  await store.projects.insert({ id: OTHER, name: "other", createdAt: 1 });
  const known = { isKnown: true, role: null, isPerson: false, isOperator: false, isForCalls: false };
  const unknown = { ...known, isKnown: false };
  const issue = async (role: Role, of: string, lifeMs = HOUR_MS) =>
    await tokens.issue({
      projectId: of,
      name: role,
      role,
      limits: role === "call" ? LIMITS : null,
      expiresAt: Date.now() + lifeMs,
    });
  const userToken = async (of: string, accountId: string): Promise<string> =>
    (await tokens.issueForUser(of, accountId, { user: "ada", lifeMs: HOUR_MS }))?.token ?? "";
  const accounts = await Promise.all(
    [projectId, OTHER].flatMap((of) =>
      ROLES.map(async (role): Promise<Identity> => {
        const isHere = of === projectId;
        const name = `${role} token of ${isHere ? "this project" : "another project"}`;
        const { token } = await issue(role, of);
        return { ...known, name, token, role: isHere ? role : null, isForCalls: role === "call" };
      }),
    ),
  );

  const users = await Promise.all(
    [projectId, OTHER].map(async (of): Promise<Identity> => {
      const isHere = of === projectId;
      const name = `end user of ${isHere ? "this project" : "another project"}`;
      const { accountId } = await issue("call", of);
      const token = await userToken(of, accountId);
      return { ...known, name, token, role: isHere ? "call" : null, isForCalls: true };
    }),
  );
  const abandoned = await issue("call", projectId);
  const abandonedUser = await userToken(projectId, abandoned.accountId);
  await tokens.revoke(projectId, abandoned.accountId);
  const renewed = await issue("call", projectId);
  const earlierUser = await userToken(projectId, renewed.accountId);
  await tokens.rotate(projectId, renewed.accountId, { expiresAt: null, overlapMs: 0 });

  const gone = await issue("admin", projectId);
  await tokens.revoke(projectId, gone.accountId);
  const replaced = await issue("admin", projectId);
  await tokens.rotate(projectId, replaced.accountId, { expiresAt: null, overlapMs: 0 });
  const good = await issue("admin", projectId);
  const { kid } = headerOf(good.token);
  const claims = claimsOf(good.token);
  const forged = async (change: object): Promise<string> =>
    await new SignJWT({ ...claims, ...change })
      .setProtectedHeader({ alg: "EdDSA", typ: "JWT", kid })
      .sign(generateKeyPairSync("ed25519").privateKey);
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const [, body = "", signature = ""] = good.token.split(".");

  const person = async (name: string, of: string, role: "owner" | "member"): Promise<string> => {
    const { token } = await issue("admin", of);
    const email = `${name}@example.com`;
    const { inviteUrl } = await post(site, `/v2/projects/${of}/invitations`, { email, role }, token);
    const link = String(inviteUrl).split("#")[1];
    const signedUp = await post(site, "/v2/invitation/sign-up", {
      link,
      email,
      password: "a long enough one",
    });
    return String(signedUp["accessToken"]);
  };
  const leaver = await person("leaver", projectId, "owner");
  await site.ask("DELETE", `members/${String(claimsOf(leaver)["sub"])}`);
  const signedOut = await person("signed-out", projectId, "owner");
  await store.sessions.end({
    id: String(claimsOf(signedOut)["sid"]),
    personId: String(claimsOf(signedOut)["sub"]),
  });

  const somebody = { ...known, isPerson: true };
  return [
    { ...unknown, name: "nobody", token: null },
    { ...unknown, name: "expired token", token: (await issue("admin", projectId, -1)).token },
    { ...unknown, name: "revoked token", token: gone.token },
    { ...unknown, name: "replaced token", token: replaced.token },
    { ...unknown, name: "token of another key", token: await forged({}) },
    { ...unknown, name: "token of another key for a person", token: await forged({ sid: "none" }) },
    { ...unknown, name: "token without a signature", token: `${encode({ alg: "none", kid })}.${body}.` },
    {
      ...unknown,
      name: "token with other claims",
      token: `${good.token.split(".")[0]}.${encode({ ...claims, role: "admin" })}x.${signature}`,
    },
    { ...unknown, name: "refresh token", token: `mrr_${"a".repeat(65)}` },
    { ...unknown, name: "person who has signed out", token: signedOut },
    { ...unknown, name: "end user of a revoked account", token: abandonedUser },
    { ...unknown, name: "end user of a rotated account", token: earlierUser },
    { ...unknown, name: "end user by another key", token: await forged({ user: "ada", parent: "none" }) },
    ...accounts,
    ...users,
    { ...known, name: "owner's token", token: owner.token, role: "admin", isOperator: true },
    { ...somebody, name: "first person", token: site.tokens.owner, role: "admin", isOperator: true },
    { ...somebody, name: "owner", token: await person("co-owner", projectId, "owner"), role: "admin" },
    { ...somebody, name: "member", token: await person("member", projectId, "member"), role: "deploy" },
    { ...somebody, name: "owner of another project", token: await person("owner-there", OTHER, "owner") },
    { ...somebody, name: "member of another project", token: await person("member-there", OTHER, "member") },
    { ...somebody, name: "person of no project", token: leaver },
  ];
}

async function post(
  site: ManagementSite,
  url: string,
  body: object,
  token?: string,
): Promise<Record<string, unknown>> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const { status, json, text } = await site.ask("POST", url, { as: "nobody", body, headers });
  if (status !== 200) throw new Error(`${url}: ${text}`);
  return json;
}

function headerOf(token: string): { readonly kid: string } {
  const [head = ""] = token.split(".");
  return JSON.parse(Buffer.from(head, "base64url").toString()) as { kid: string };
}
