import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { claimsOf, cookieOf, IdentitySite, type SiteOptions } from "../../support/identity-site.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const PASSWORD = "correct horse";
const EMAIL = "ada@example.com";
const DAY_MS = 86_400_000;

async function openSite(kind: "sqlite" | "postgres" = "sqlite", options: SiteOptions = {}) {
  const clock = new HandClock();
  const database = await databases.fresh(kind);
  const site = await IdentitySite.open(database, clock, options);
  const signIn = (password = PASSWORD, email = EMAIL, ip = "192.0.2.1") =>
    site.ask("POST", "/v2/session", { body: { email, password }, ip });
  const refresh = (cookie: string, headers = {}) =>
    site.ask("POST", "/v2/session/refresh", { headers: { cookie, ...headers } });
  const me = async (token: string) => (await site.ask("GET", "/v2/me", { token })).status;
  return { clock, database, site, signIn, refresh, me };
}

describe.each(triedKinds("sqlite"))("people on %s", (kind) => {
  test("the set-up link makes the first person, owner of every project, once", async () => {
    const { site } = await openSite(kind);
    const link = await site.people.setupLink("http://here");
    expect(link).toMatch(/^http:\/\/here\/setup#[\w-]{40,}$/);
    const secret = link?.split("#")[1] ?? "";
    const setUp = (used: string, email: string) =>
      site.ask("POST", "/v2/setup", { body: { link: used, email, password: PASSWORD } });
    for (const bad of ["x", secret.slice(1), site.links.password({ id: "u-x", updatedAt: 1 }, "operator")]) {
      expect((await setUp(bad, EMAIL)).status).toBe(403);
    }
    // Two at the same moment: one is first.
    const both = await Promise.all([setUp(secret, "Ada@Example.com"), setUp(secret, EMAIL)]);
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 403]));
    const first = both.find(({ status }) => status === 200);
    const me = await site.ask("GET", "/v2/me", { token: first?.json.accessToken });
    expect(me.json).toEqual({
      id: first?.json.personId,
      email: EMAIL,
      isProven: false,
      isOperator: true,
      projects: [{ id: "p-one", name: "one", role: "owner" }],
    });
    expect(await site.people.setupLink("http://here")).toBeNull();
    expect((await setUp(secret, "eve@example.com")).status).toBe(403);
  });

  verifies(
    ["people.sign-in", "people.access-token"],
    "signing in gives a token for 15 minutes, of the same form without project_id",
    async () => {
      const { clock, site, signIn, me } = await openSite(kind);
      await site.setUp();
      const { status, json, headers } = await signIn(PASSWORD, "ADA@example.com");
      expect([status, headers["cache-control"]]).toEqual([200, "no-store"]);
      expect(json).toEqual({
        personId: expect.stringMatching(/^u-/) as string,
        accessToken: expect.any(String) as string,
        expiresAt: new Date(clock.nowMs + 900_000).toISOString(),
      });
      expect(Object.keys(claimsOf(json.accessToken)).toSorted()).toEqual(
        ["iss", "aud", "sub", "sid", "jti", "iat", "exp"].toSorted(),
      );
      expect(claimsOf(json.accessToken)).toMatchObject({ sub: json.personId });
      expect(await me(json.accessToken)).toBe(200);
      expect((await site.ask("GET", "service-accounts", { token: json.accessToken })).status).toBe(200);
      clock.nowMs += 900_000;
      expect(await me(json.accessToken)).toBe(401);
    },
  );

  verifies("people.refresh", "the cookie is for scripts out of reach, and each use replaces it", async () => {
    const { clock, site, refresh, me } = await openSite(kind);
    const first = await site.setUp();
    const set = String(first.headers["set-cookie"]).split("; ").slice(1);
    expect(set).toEqual(["Path=/v2/session", "Max-Age=2592000", "HttpOnly", "SameSite=Strict"]);
    clock.nowMs += 1_000_000;
    expect(await me(first.json.accessToken)).toBe(401);
    const second = await refresh(cookieOf(first));
    expect(second.status).toBe(200);
    expect(cookieOf(second)).not.toBe(cookieOf(first));
    expect(await me(second.json.accessToken)).toBe(200);
    // Two tabs at once: the second comes with the cookie that the first has just replaced.
    const crossing = await refresh(cookieOf(first));
    expect([crossing.status, crossing.headers["set-cookie"]]).toEqual([200, undefined]);
    const third = await refresh(cookieOf(second));
    expect(third.status).toBe(200);
    // One that was replaced long ago has been stolen: nobody goes on with it.
    expect((await refresh(cookieOf(first))).status).toBe(401);
    expect((await refresh(cookieOf(third))).status).toBe(401);
    expect(await me(third.json.accessToken)).toBe(401);
  });

  test("the cookie replaced last is stolen too when it comes late", async () => {
    const { clock, site, refresh } = await openSite(kind);
    const first = await site.setUp();
    const second = await refresh(cookieOf(first));
    clock.nowMs += 10_001;
    expect((await refresh(cookieOf(first))).status).toBe(401);
    expect((await refresh(cookieOf(second))).status).toBe(401);
  });

  test("of many refreshes at once with one cookie one replaces it, and none ends the session", async () => {
    const { site, refresh } = await openSite(kind);
    const cookie = cookieOf(await site.setUp());
    const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(cookie)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
    expect(answers.filter(({ headers }) => headers["set-cookie"] !== undefined)).toHaveLength(1);
  });

  test("a session ends when it was not used for 30 days, and by signing out", async () => {
    const { clock, site, signIn, refresh, me } = await openSite(kind);
    await site.setUp();
    const idle = await signIn();
    clock.nowMs += 30 * DAY_MS;
    expect((await refresh(cookieOf(idle))).status).toBe(401);
    const { headers, json, ...rest } = await signIn();
    const cookie = cookieOf({ headers, json, ...rest });
    const out = await site.ask("DELETE", "/v2/session", { headers: { cookie } });
    expect(out.status).toBe(200);
    expect(String(out.headers["set-cookie"])).toMatch(/^millrace_refresh=; .*Max-Age=0/);
    expect(await me(json.accessToken)).toBe(401);
    expect((await refresh(cookie)).status).toBe(401);
    expect((await site.ask("DELETE", "/v2/session")).status).toBe(200);
  });

  test("a new password needs the old one and ends every other session", async () => {
    const { site, signIn, refresh, me } = await openSite(kind);
    const other = await site.setUp();
    const mine = await signIn();
    const token: string = mine.json.accessToken;
    const change = (currentPassword: string, newPassword: string) =>
      site.ask("POST", "/v2/me/password", { token, body: { currentPassword, newPassword } });
    expect((await change("wrong password", "a new password")).status).toBe(401);
    expect((await change(PASSWORD, "too short")).status).toBe(400);
    expect((await change(PASSWORD, "a new password")).status).toBe(200);
    expect([await me(token), await me(other.json.accessToken)]).toEqual([200, 401]);
    expect((await refresh(cookieOf(other))).status).toBe(401);
    expect([(await signIn()).status, (await signIn("a new password")).status]).toEqual([401, 200]);
  });

  test("an owner changes what members are, and takes them out; a project keeps an owner", async () => {
    const { site, me } = await openSite(kind);
    const owner = (await site.setUp()).json;
    const token: string = owner.accessToken;
    const link = await site.invite(token, { email: "Grace@example.com" });
    const grace = (await site.signUp(link, "grace@example.com")).json;
    const list = async (as: string) => await site.ask("GET", "members", { token: as });
    expect((await list(grace.accessToken)).json).toMatchObject([
      { personId: owner.personId, role: "owner", isProven: false },
      { personId: grace.personId, email: "grace@example.com", role: "member", isProven: false },
    ]);
    const accounts = async () =>
      (await site.ask("GET", "service-accounts", { token: grace.accessToken })).status;
    const change = (personId: string, role: string) =>
      site.ask("PATCH", `members/${personId}`, { token, body: { role } });
    expect(await accounts()).toBe(403);
    expect((await change(grace.personId, "owner")).json).toEqual({
      personId: grace.personId,
      email: "grace@example.com",
      isProven: false,
      role: "owner",
    });
    expect(await accounts()).toBe(200);
    expect((await site.ask("DELETE", `members/${grace.personId}`, { token })).status).toBe(200);
    expect((await site.ask("DELETE", `members/${grace.personId}`, { token })).status).toBe(404);
    expect((await change(grace.personId, "owner")).status).toBe(404);
    expect([(await list(grace.accessToken)).status, await me(grace.accessToken)]).toEqual([403, 200]);
    // Nobody leaves a project without an owner.
    expect((await site.ask("DELETE", `members/${owner.personId}`, { token })).status).toBe(400);
    expect((await change(owner.personId, "member")).status).toBe(400);
  });

  verifies("hardening.projects", "nobody owns more than 200 projects", async () => {
    const { site } = await openSite(kind);
    const { personId, accessToken: token } = (await site.setUp()).json;
    for (let made = 1; made < 200; made += 1) {
      await site.people.createProject(personId, { id: `p-more${made}`, name: "more" });
    }
    const { status, json } = await site.ask("POST", "/v2/projects", { token, body: { name: "one more" } });
    expect([status, json.message]).toEqual([400, "A person can own at most 200 projects."]);
    const { json: me } = await site.ask("GET", "/v2/me", { token });
    expect(me.projects).toHaveLength(200);
  });

  test("who makes a project is its owner, and has it at once", async () => {
    const { clock, site } = await openSite(kind);
    const { personId, accessToken: token } = (await site.setUp()).json;
    const members = () => site.ask("GET", "/v2/projects/p-new/members", { token });
    expect((await members()).status).toBe(403);
    clock.nowMs += 1_000;
    expect(await site.people.createProject(personId, { id: "p-new", name: "new" })).toBe(true);
    expect((await members()).json).toMatchObject([{ personId, role: "owner" }]);
    expect(await site.people.createProject(personId, { id: "p-new", name: "again" })).toBe(false);
    const { json } = await site.ask("GET", "/v2/me", { token });
    expect(json.projects.map(({ id }: { id: string }) => id)).toEqual(["p-one", "p-new"]);
  });

  test("a person sees where they are signed in, and signs out from afar", async () => {
    const { site, signIn, me } = await openSite(kind);
    const afar = (await site.setUp()).json;
    const token: string = (await signIn()).json.accessToken;
    const { json } = await site.ask("GET", "/v2/me/sessions", { token });
    expect(json.map(({ kind: of, isCurrent }: Record<string, unknown>) => [of, isCurrent])).toEqual(
      expect.arrayContaining([
        ["browser", true],
        ["browser", false],
      ]),
    );
    const { id } = json.find(({ isCurrent }: { isCurrent: boolean }) => !isCurrent);
    expect((await site.ask("DELETE", `/v2/me/sessions/${id}`, { token })).status).toBe(200);
    expect((await site.ask("DELETE", `/v2/me/sessions/${id}`, { token })).status).toBe(404);
    expect([await me(afar.accessToken), await me(token)]).toEqual([401, 200]);
  });
});

describe("who guesses passwords", () => {
  test("is slowed down, and stops nobody at an address they have signed in from", async () => {
    const { clock, site, signIn } = await openSite();
    await site.setUp();
    expect((await signIn(PASSWORD, EMAIL, "198.51.100.7")).status).toBe(200);
    const guesses = await Promise.all(
      Array.from({ length: 12 }, (_, i) => signIn(`guess ${i}`, EMAIL, `203.0.113.${i}`)),
    );
    const count = (wanted: number) => guesses.filter(({ status }) => status === wanted).length;
    expect([count(401), count(429)]).toEqual([10, 2]);
    const refused = guesses.find(({ status }) => status === 429);
    expect([refused?.json.code, refused?.headers["retry-after"]]).toEqual(["too_many_requests", "60"]);
    expect((await signIn(PASSWORD, EMAIL, "203.0.113.99")).status).toBe(429);
    expect((await signIn(PASSWORD, EMAIL, "198.51.100.7")).status).toBe(200);
    clock.nowMs += 60_000;
    expect((await signIn(PASSWORD, EMAIL, "203.0.113.99")).status).toBe(200);
  });
});

describe("the cookie", () => {
  test("is not for pages of other sites, and is Secure where the public address is https", async () => {
    const database = await databases.fresh("sqlite");
    const site = await IdentitySite.open(database, new HandClock(), {
      publicBaseUrl: "https://millrace.example/",
    });
    const first = await site.setUp();
    expect(String(first.headers["set-cookie"])).toMatch(/; Secure$/);
    const cookie = cookieOf(first);
    const from = (origin: string) =>
      site.ask("POST", "/v2/session/refresh", { headers: { cookie, origin } }).then(({ status }) => status);
    expect(await from("https://evil.example")).toBe(403);
    expect(await from("null")).toBe(403);
    expect(await from("https://millrace.example")).toBe(200);
    const form = { "content-type": "application/x-www-form-urlencoded" };
    const body = "email=a%40b.example&password=x";
    expect((await site.ask("POST", "/v2/session", { headers: form, body })).status).toBe(415);
  });
});

test("a copy of the data directory without the master key holds nothing that opens a door", async () => {
  const { database, site, refresh } = await openSite();
  const secrets = [PASSWORD];
  const first = await site.setUp();
  const second = await refresh(cookieOf(first));
  const invited = await site.invite(second.json.accessToken, { email: "grace@example.com" });
  const account = await site.account();
  const asked = (await site.ask("POST", "/device-authorization")).json.deviceAuthResponsePayload;
  for (const token of [first.json.accessToken, second.json.accessToken, account]) {
    const [, , signature = ""] = String(token).split(".");
    secrets.push(String(token), signature, String(claimsOf(token)["jti"]));
  }
  for (const cookie of [cookieOf(first), cookieOf(second)]) {
    secrets.push(cookie.slice(-43), cookie.slice(-65, -43));
  }
  secrets.push(invited, asked.device_code);
  secrets.push(asked.user_code, asked.user_code.replace("-", ""));
  await site.store.close();
  const holders: string[] = [];
  for (const file of await readdir(database.dataDir, { recursive: true })) {
    if (file === "master.key") continue;
    const content = await readFile(path.join(database.dataDir, file));
    for (const secret of secrets) {
      expect(secret.length).toBeGreaterThan(7);
      expect([file, content.includes(secret)]).toEqual([file, false]);
    }
    if (content.includes("grace@example.com")) holders.push(file);
  }
  // The search finds what is there.
  expect(holders).toContain("millrace.db");
});
