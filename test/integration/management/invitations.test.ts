import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type DatabaseKind, testDatabases, triedKinds } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { IdentitySite, OWN_URL } from "../../support/identity-site.ts";
import { MailServer, secretIn } from "../../support/mail-server.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const GRACE = "grace@example.com";
const DAY_MS = 86_400_000;

async function openSite(kind: DatabaseKind = "sqlite", mail?: MailServer) {
  const clock = new HandClock();
  const site = await IdentitySite.open(await databases.fresh(kind), clock, { ...(mail && { mail }) });
  const owner = (await site.setUp()).json as { personId: string; accessToken: string };
  const token = owner.accessToken;
  /** Again when it has expired. */
  const signIn = async (email: string, password = "correct horse"): Promise<string> =>
    (await site.ask("POST", "/v2/session", { body: { email, password } })).json.accessToken;
  const read = async (link: string) => await site.ask("POST", "/v2/invitation", { body: { link } });
  const join = async (link: string, as: string) =>
    await site.ask("POST", "/v2/invitation/join", { token: as, body: { link } });
  const list = async (as = token) => (await site.ask("GET", "invitations", { token: as })).json;
  const roleOf = async (as: string): Promise<string | undefined> => {
    const { json } = await site.ask("GET", "/v2/me", { token: as });
    return json.projects.find(({ id }: { id: string }) => id === site.projectId)?.role;
  };
  /** Somebody with a project of their own. */
  const stranger = async (email: string): Promise<{ personId: string; accessToken: string }> => {
    const projectId = `p-of-${email.split("@")[0]}`;
    await site.people.createProject(owner.personId, { id: projectId, name: projectId });
    const link = await site.invite(token, { email, role: "owner" }, projectId);
    return (await site.signUp(link, email)).json;
  };
  return { site, clock, owner, token, signIn, read, join, list, roleOf, stranger };
}

describe.each(triedKinds("sqlite"))("an invitation on %s", (kind) => {
  verifies(
    "invitation.bearer",
    "lets whoever opens it join one project, once, signed in or signing up",
    async () => {
      const { site, clock, token, read, join, list, roleOf, stranger } = await openSite(kind);
      const made = await site.ask("POST", "invitations", { token, body: { email: "Grace@Example.com" } });
      expect([made.status, made.headers["cache-control"]]).toEqual([200, "no-store"]);
      expect(made.json).toEqual({
        id: expect.stringMatching(/^inv-/) as string,
        email: GRACE,
        role: "member",
        invitedBy: expect.stringMatching(/^u-/) as string,
        isMailed: false,
        mailedAt: null,
        createdAt: new Date(clock.nowMs).toISOString(),
        expiresAt: new Date(clock.nowMs + 7 * DAY_MS).toISOString(),
        inviteUrl: expect.stringMatching(/^http:\/\/[^/]+\/invitation#[\w-]{43}$/) as string,
      });
      const { inviteUrl, ...shown } = made.json;
      const link = String(inviteUrl).split("#")[1] ?? "";
      expect(await list()).toEqual([shown]);
      expect((await read(link)).json).toEqual({
        projectId: site.projectId,
        projectName: "one",
        role: "member",
        email: GRACE,
        expiresAt: shown.expiresAt,
      });
      // Signing up, with whatever address.
      const signedUp = await site.signUp(link, "someone@else.example");
      expect(signedUp.json).toMatchObject({ projectId: site.projectId });
      expect(String(signedUp.headers["set-cookie"])).toMatch(/^millrace_refresh=mrr_/);
      expect(await roleOf(signedUp.json.accessToken)).toBe("member");
      expect(await list()).toEqual([]);
      for (const { status, json } of [
        await read(link),
        await site.signUp(link, GRACE),
        await join(link, token),
      ]) {
        expect([status, json.message]).toEqual([403, "The link is invalid, already used, or has expired."]);
      }
      // Signed in: with the account one has.
      const there = (await stranger("there@example.com")).accessToken;
      expect((await join(await site.invite(token, { email: GRACE, role: "owner" }), there)).json).toEqual({
        projectId: site.projectId,
        role: "owner",
      });
      expect(await roleOf(there)).toBe("owner");
      const { json: entries } = { json: await site.audit.list({ projectId: site.projectId, limit: 10 }) };
      expect(entries.map(({ action }) => action)).toEqual([
        "member.join",
        "invitation.create",
        "member.join",
        "invitation.create",
      ]);
      expect(JSON.stringify(entries)).not.toContain(link);
    },
  );

  test("is used by one of many who open it at the same moment, and nobody else is made", async () => {
    const { site, token, join, stranger } = await openSite(kind);
    const signedIn = [
      (await stranger("a@example.com")).accessToken,
      (await stranger("b@example.com")).accessToken,
    ];
    const before = (await site.ask("GET", "members", { token })).json.length;
    const link = await site.invite(token, { email: GRACE });
    const answers = await Promise.all([
      ...signedIn.map((as) => join(link, as)),
      ...Array.from({ length: 4 }, (_, i) => site.signUp(link, `g${i}@example.com`)),
    ]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      200, 403, 403, 403, 403, 403,
    ]);
    expect((await site.ask("GET", "members", { token })).json).toHaveLength(before + 1);
    const made = await Promise.all(
      Array.from({ length: 4 }, (_, i) =>
        site.store.people.listByEmail({ email: `g${i}@example.com`, limit: 2 }),
      ),
    );
    expect(made.flat().length).toBe(answers.slice(2).filter(({ status }) => status === 200).length);
  });

  verifies("invitation.void", "ends by time, by being revoked, and with its inviter's right", async () => {
    const { site, clock, owner, token, read, join, list, signIn } = await openSite(kind);
    const revoked = await site.ask("POST", "invitations", { token, body: { email: GRACE } });
    const { id, inviteUrl } = revoked.json;
    expect((await site.ask("DELETE", `invitations/${id}`, { token })).status).toBe(200);
    expect((await site.ask("DELETE", `invitations/${id}`, { token })).status).toBe(404);
    expect((await read(String(inviteUrl).split("#")[1] ?? "")).status).toBe(403);

    // An owner who goes, or is an owner no longer, takes along what they have invited; others' stay.
    const coOwner = async (email: string) =>
      (await site.signUp(await site.invite(token, { email, role: "owner" }), email)).json;
    const kept = await site.invite(token, { email: GRACE });
    for (const [email, end] of [
      [GRACE, (personId: string) => site.ask("DELETE", `members/${personId}`, { token })],
      [
        "joan@example.com",
        (personId: string) => site.ask("PATCH", `members/${personId}`, { token, body: { role: "member" } }),
      ],
    ] as const) {
      const { personId, accessToken } = await coOwner(email);
      const theirs = await site.invite(accessToken, { email: "friend@example.com", role: "owner" });
      expect((await read(theirs)).status).toBe(200);
      expect((await end(personId)).status).toBe(200);
      expect((await site.signUp(theirs, "friend@example.com")).status).toBe(403);
      // Not even when they are back.
      await join(await site.invite(token, { email, role: "owner" }), accessToken);
      expect((await join(theirs, token)).status).toBe(403);
    }
    expect((await read(kept)).status).toBe(200);

    // A service account's end with its right to invite.
    const account = async () =>
      (await site.ask("POST", "service-accounts", { token, body: { name: "x" } })).json;
    for (const end of [
      (of: string) => site.ask("DELETE", `service-accounts/${of}`, { token }),
      (of: string) => site.ask("PATCH", `service-accounts/${of}`, { token, body: { role: "deploy" } }),
    ]) {
      const { id: accountId, token: its } = await account();
      const theirs = await site.invite(its, { email: GRACE });
      expect((await read(theirs)).status).toBe(200);
      expect((await end(accountId)).status).toBe(200);
      expect((await read(theirs)).status).toBe(403);
    }
    const body = { name: "short", expiresAt: new Date(clock.nowMs + DAY_MS).toISOString() };
    const short = (await site.ask("POST", "service-accounts", { token, body })).json;
    const byShort = await site.invite(short.token, { email: GRACE });
    clock.nowMs += DAY_MS;
    expect([(await read(byShort)).status, (await read(kept)).status]).toEqual([403, 200]);

    clock.nowMs += 6 * DAY_MS;
    expect((await read(kept)).status).toBe(403);
    const again = await signIn("ada@example.com");
    expect((await join(kept, again)).status).toBe(403);
    expect(await list(again)).toEqual([]);
    expect(owner.personId).toMatch(/^u-/);
  });

  test("is made only by who has the right at that moment, whatever they had when they asked", async () => {
    const { site, clock, token } = await openSite(kind);
    const grace = (await site.signUp(await site.invite(token, { email: GRACE, role: "owner" }), GRACE)).json;
    const account = (await site.ask("POST", "service-accounts", { token, body: { name: "x" } })).json;
    const made = async (inviterId: string) =>
      await site.store.invitations.insert({
        invitation: {
          id: `inv-${inviterId}-${Math.random()}`,
          projectId: site.projectId,
          role: "owner",
          email: GRACE,
          secretHash: randomBytes(32),
          inviterId,
          isMailed: 0,
          createdAt: clock.nowMs,
          expiresAt: clock.nowMs + DAY_MS,
        },
        max: 100,
      });
    expect([await made(grace.personId), await made(account.id)]).toEqual(["made", "made"]);
    // As if another process had let them in a moment before it learnt of this.
    await site.ask("PATCH", `members/${grace.personId}`, { token, body: { role: "member" } });
    await site.ask("PATCH", `service-accounts/${account.id}`, { token, body: { role: "deploy" } });
    expect([await made(grace.personId), await made(account.id)]).toEqual(["no_right", "no_right"]);
    await site.ask("DELETE", `members/${grace.personId}`, { token });
    await site.ask("DELETE", `service-accounts/${account.id}`, { token });
    expect([await made(grace.personId), await made(account.id)]).toEqual(["no_right", "no_right"]);
    expect(await made("u-nobody")).toBe("no_right");
  });

  test("never makes anybody less than they are", async () => {
    const { site, token, join, roleOf } = await openSite(kind);
    expect((await join(await site.invite(token, { email: GRACE }), token)).json).toMatchObject({
      role: "owner",
    });
    expect(await roleOf(token)).toBe("owner");
    const member = (await site.signUp(await site.invite(token, { email: GRACE }), GRACE)).json.accessToken;
    await join(await site.invite(token, { email: GRACE, role: "owner" }), member);
    expect(await roleOf(member)).toBe("owner");
  });
});

verifies("invitation.listed", "is made, listed and revoked by the project's own owners alone", async () => {
  const { site, token, stranger } = await openSite();
  await site.store.projects.insert({ id: "p-other", name: "other", createdAt: 1 });
  const { json } = await site.ask("POST", "invitations", { token, body: { email: GRACE } });
  const member = (await site.signUp(await site.invite(token, { email: GRACE }), GRACE)).json.accessToken;
  const outsiders = [
    member,
    await site.account("deploy"),
    await site.account("run"),
    await site.account("admin", "p-other"),
    (await stranger("other@example.com")).accessToken,
  ];
  for (const outsider of outsiders) {
    for (const [method, url] of [
      ["GET", "invitations"],
      ["POST", "invitations"],
      ["DELETE", `invitations/${json.id}`],
    ] as const) {
      const { status } = await site.ask(method, url, {
        token: outsider,
        ...(method === "POST" && { body: {} }),
      });
      expect([method, status]).toEqual([method, 403]);
    }
  }
  // Not by way of a project of one's own either.
  const other = await site.account("admin", "p-other");
  const url = `/v2/projects/p-other/invitations/${json.id}`;
  expect((await site.ask("DELETE", url, { token: other })).status).toBe(404);
  expect((await site.ask("GET", "invitations", { token: await site.account() })).json).toHaveLength(1);
});

test("a project has at most 100 open invitations", async () => {
  const { site, token } = await openSite();
  for (let i = 0; i < 100; i++) await site.invite(token, { email: GRACE });
  const { status, json } = await site.ask("POST", "invitations", { token, body: { email: GRACE } });
  expect([status, json.message]).toEqual([400, expect.stringContaining("revoke some")]);
});

describe("with mail", () => {
  verifies(
    "invitation.mailed",
    "the link goes to the address alone, and whoever comes by it has proven that",
    async () => {
      const mail = await MailServer.open();
      const { site, token, list, join, signIn } = await openSite("sqlite", mail);
      const body = { email: GRACE, send: "mail" };
      const made = await site.ask("POST", "invitations", { token, body, headers: { host: "evil.example" } });
      expect(made.json).toMatchObject({ isMailed: true, mailedAt: null, inviteUrl: null });
      const { text, head } = await site.mailTo(GRACE);
      expect(head).toContain("Subject: An invitation to Millrace");
      // Where it leads is never what a request says of itself.
      expect(text).toContain(`${OWN_URL}/invitation#`);
      expect(made.text).not.toContain(secretIn({ text }));
      await until("it is noted", async () => (await list())[0].mailedAt !== null);

      const grace = (await site.signUp(secretIn({ text }), "Grace@example.com")).json;
      const meOf = async (as: string) => (await site.ask("GET", "/v2/me", { token: as })).json;
      expect(await meOf(grace.accessToken)).toMatchObject({ email: GRACE, isProven: true });

      // A second account by the same mailbox does not take it away; one with another address proves nothing.
      await site.ask("POST", "invitations", { token, body });
      const second = (await site.signUp(secretIn(await site.mailTo(GRACE, 1)), GRACE, "another word")).json;
      expect(await meOf(second.accessToken)).toMatchObject({ email: GRACE, isProven: false });
      expect(await meOf(grace.accessToken)).toMatchObject({ isProven: true });
      await site.ask("POST", "invitations", { token, body: { ...body, email: "joan@example.com" } });
      const joan = secretIn(await site.mailTo("joan@example.com"));
      expect((await join(joan, second.accessToken)).status).toBe(200);
      expect(await meOf(second.accessToken)).toMatchObject({ email: GRACE, isProven: false });
      expect(await signIn(GRACE, "another word")).toEqual(expect.any(String));
    },
  );

  test("a link that the inviter has seen proves nothing", async () => {
    const mail = await MailServer.open();
    const { site, token } = await openSite("sqlite", mail);
    const grace = (await site.signUp(await site.invite(token, { email: GRACE }), GRACE)).json;
    const me = await site.ask("GET", "/v2/me", { token: grace.accessToken });
    expect(me.json).toMatchObject({ email: GRACE, isProven: false });
  });

  test("nobody's mailbox is flooded", async () => {
    const mail = await MailServer.open();
    const { site, token } = await openSite("sqlite", mail);
    const statuses = [];
    for (let i = 0; i < 5; i++) {
      const body = { email: GRACE, send: "mail" };
      statuses.push((await site.ask("POST", "invitations", { token, body })).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
  });
});

test("without mail none is sent, and who asks for it is told", async () => {
  const { site, token, list } = await openSite();
  const { status, json } = await site.ask("POST", "invitations", {
    token,
    body: { email: GRACE, send: "mail" },
  });
  expect([status, json.message]).toEqual([400, "This installation does not send mail."]);
  expect(await list()).toEqual([]);
});
