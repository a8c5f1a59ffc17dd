import { describe, expect, test } from "vitest";
import type { Role } from "../../../src/model/roles.ts";
import { hashSecret } from "../../../src/identity/token-judge.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { IdentitySite, claimsOf } from "../../support/identity-site.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const PATH = "/v2/projects/p-one/service-accounts";
const HOUR_MS = 3_600_000;
const PAGE = { name: "page", role: "call", apps: ["hello"] };

async function openSite(kind: "sqlite" | "postgres" = "sqlite") {
  const clock = new HandClock();
  const site = await IdentitySite.open(await databases.fresh(kind), clock);
  const token = await site.account("admin");
  const create = (body: unknown) => site.ask("POST", PATH, { token, body });
  const change = (id: string, body: unknown) => site.ask("PATCH", `${PATH}/${id}`, { token, body });
  const mint = (id: string, body: unknown, by = token) =>
    site.ask("POST", `${PATH}/${id}/tokens`, { token: by, body });
  return { clock, site, token, create, change, mint };
}

describe.each(triedKinds("sqlite"))("accounts of role call on %s", (kind) => {
  verifies("call.limits", "are made, listed, changed and written down with their limits", async () => {
    const { site, token, create, change } = await openSite(kind);
    const limits = {
      apps: ["hello", "counter"],
      functions: ["run"],
      origins: ["https://shop.example.com", "http://localhost:3000"],
      callsPerMinute: 60,
    };
    const { status, json } = await create({ ...PAGE, ...limits });
    expect(status).toBe(200);
    expect(json).toMatchObject({ role: "call", ...limits });
    expect(claimsOf(json.token)).toMatchObject({ role: "call", sub: json.id });
    expect((await site.tokens.verify(json.token)).principal).toMatchObject({ role: "call", limits });
    const listed = async () => {
      const all = (await site.ask("GET", PATH, { token })).json as Record<string, unknown>[];
      return all.find(({ id }) => id === json.id);
    };
    expect(await listed()).toMatchObject({ role: "call", ...limits });
    // What is left out stays, null is no limit.
    const changed = await change(json.id, { origins: null, callsPerMinute: 5 });
    const after = { ...limits, origins: null, callsPerMinute: 5 };
    expect(changed.json).toMatchObject(after);
    expect(await listed()).toMatchObject(after);
    expect((await site.tokens.admit(json.token)).principal).toMatchObject({ limits: after });
    await change(json.id, { name: "renamed" });
    expect(await listed()).toMatchObject({ name: "renamed", ...after });
    const rotated = await site.ask("POST", `${PATH}/${json.id}/rotate`, { token });
    expect(rotated.json).toMatchObject({ role: "call", ...after });
    const changes = await site.audit.list({ projectId: "p-one", limit: 10 });
    expect(changes.map(({ action }) => action)).toEqual([
      "service-account.rotate",
      "service-account.update",
      "service-account.update",
      "service-account.create",
    ]);
    expect(changes[2]).toMatchObject({ before: limits, after });
    // Others have none.
    const plain = await create({ name: "ci", role: "run" });
    expect(Object.keys(plain.json)).not.toContain("apps");
  });

  for (const [what, other] of [
    ["a rename", { name: "renamed" }],
    ["a change of another limit", { callsPerMinute: 5 }],
  ] as const) {
    verifies("call.limits", `are not widened again by ${what} at the same time`, async () => {
      const { site, token, create, change } = await openSite(kind);
      const { json } = await create({ ...PAGE, apps: ["hello", "counter"] });
      const { accounts } = site.store;
      const find = accounts.find.bind(accounts);
      const narrowAfter: typeof find = async (key) => {
        const found = await find(key);
        Object.assign(accounts, { find });
        expect((await change(json.id, { apps: ["hello"] })).status).toBe(200);
        return found;
      };
      Object.assign(accounts, { find: narrowAfter });
      expect((await change(json.id, other)).status).toBe(200);
      const listed = (await site.ask("GET", PATH, { token })).json as Record<string, unknown>[];
      expect(listed.find(({ id }) => id === json.id)).toMatchObject({ ...other, apps: ["hello"] });
    });
  }

  verifies("call.limits", "are refused without apps, and limits without the role", async () => {
    const { create, change } = await openSite(kind);
    for (const body of [
      { ...PAGE, apps: undefined },
      { ...PAGE, apps: null },
      { ...PAGE, apps: [] },
      { ...PAGE, apps: ["Hello"] },
      { ...PAGE, apps: "hello" },
      { ...PAGE, apps: [""] },
      { ...PAGE, functions: [] },
      { ...PAGE, functions: ["_private"] },
      { ...PAGE, functions: ["a/b"] },
      { ...PAGE, origins: [] },
      { ...PAGE, origins: ["*"] },
      { ...PAGE, origins: ["null"] },
      { ...PAGE, origins: ["https://shop.example.com/"] },
      { ...PAGE, origins: ["https://Shop.example.com"] },
      { ...PAGE, origins: ["https://shop.example.com:443"] },
      { ...PAGE, origins: ["shop.example.com"] },
      { ...PAGE, origins: ["ftp://shop.example.com"] },
      { ...PAGE, callsPerMinute: 0 },
      { ...PAGE, callsPerMinute: 1.5 },
      { ...PAGE, callsPerMinute: 1e9 },
      { name: "x", role: "run", apps: ["hello"] },
      { name: "x", callsPerMinute: 5 },
    ]) {
      const { status, json } = await create(body);
      expect([body, status, json.code]).toEqual([body, 400, "bad_request"]);
    }
    const { json } = await create({ name: "x", role: "run" });
    expect((await change(json.id, { apps: ["hello"] })).status).toBe(400);
    expect((await change(json.id, { role: "call" })).status).toBe(400);
    expect((await change(json.id, { role: "call", apps: ["hello"] })).json).toMatchObject({ role: "call" });
  });

  verifies(
    "call.role-stays",
    "never get another role, nor do their end users, however the account is changed",
    async () => {
      const { site, create, change, mint } = await openSite(kind);
      const { json } = await create(PAGE);
      const minted = await mint(json.id, { user: "ada" });
      for (const role of ["run", "deploy", "admin"] as const) {
        const { status, json: refused } = await change(json.id, { role });
        expect([status, refused.code]).toEqual([400, "bad_request"]);
        // Two changes at once: the second has seen the account before the first.
        const key = { id: json.id as string, projectId: "p-one" };
        expect(await site.store.accounts.update({ ...key, change: { role } })).toBe(false);
      }
      expect((await change(json.id, { role: "call" })).status).toBe(200);
      // A stored role that was changed all the same raises no end user.
      const stored = await site.store.tokens.findByJtiHash(hashSecret(String(claimsOf(json.token)["jti"])));
      expect(stored?.account.role).toBe("call");
      const raised = new IdentityWithRole(site, "admin");
      await expect(raised.verify(minted.json.token)).rejects.toMatchObject({ code: "unauthorized" });
      await expect(raised.verify(json.token)).resolves.toMatchObject({ principal: { role: "admin" } });
    },
  );

  verifies(
    "call.users",
    "have end users, whose tokens those of role run and stronger make, for a day at most",
    async () => {
      const { clock, site, create, mint } = await openSite(kind);
      const { json: page } = await create({ ...PAGE, callsPerMinute: 7 });
      for (const role of ["run", "deploy", "admin"] as const) {
        const by = await site.account(role);
        const { status, json, headers } = await mint(page.id, { user: "ada", expiresInSeconds: 60 }, by);
        const expiresAt = new Date(clock.nowMs + 60_000).toISOString();
        expect([status, json]).toEqual([200, { token: expect.any(String) as string, expiresAt }]);
        expect(headers["cache-control"]).toBe("no-store");
        const { principal } = await site.tokens.verify(json.token);
        expect(principal).toMatchObject({
          accountId: page.id,
          projectId: "p-one",
          role: "call",
          limits: { apps: ["hello"], callsPerMinute: 7 },
          caller: { accountId: page.id, user: "ada" },
        });
        expect(claimsOf(json.token)).toMatchObject({ sub: page.id, role: "call", user: "ada" });
      }
      const [change] = await site.audit.list({ projectId: "p-one", limit: 1 });
      expect(change).toMatchObject({
        action: "service-account.user-token",
        target: page.id,
        after: { user: "ada" },
      });
      expect(JSON.stringify(change)).not.toContain("ey");
      const { json: unsaid } = await mint(page.id, { user: "ada" });
      expect(Date.parse(unsaid.expiresAt)).toBe(clock.nowMs + HOUR_MS);
      const longest = await mint(page.id, { user: "ada", expiresInSeconds: 86_400 });
      expect(longest.status).toBe(200);
      for (const body of [
        {},
        { user: "" },
        { user: 7 },
        { user: "a\nb" },
        { user: "a\0b" },
        { user: "\ud800" },
        { user: "x".repeat(201) },
        { user: "ada", expiresInSeconds: 86_401 },
        { user: "ada", expiresInSeconds: 0 },
        { user: "ada", expiresInSeconds: -1 },
        { user: "ada", expiresInSeconds: "60" },
        { user: "ada", expiresInSeconds: 1.5 },
      ]) {
        expect([body, (await mint(page.id, body)).status]).toEqual([body, 400]);
      }
      // As it is given: " ada" is not ada.
      const { json: spaced } = await mint(page.id, { user: " ada" });
      expect((await site.tokens.verify(spaced.token)).principal.caller.user).toBe(" ada");
    },
  );

  verifies("call.users", "no other account has end users, and no weaker token makes one", async () => {
    const { site, create, mint } = await openSite(kind);
    const { json: page } = await create(PAGE);
    const { json: minted } = await mint(page.id, { user: "ada" });
    for (const by of [page.token, minted.token])
      expect((await mint(page.id, { user: "grace" }, by)).status).toBe(403);
    const { json: run } = await create({ name: "ci", role: "run" });
    expect((await mint(run.id, { user: "ada" })).json.code).toBe("bad_request");
    expect((await mint("sa-none", { user: "ada" })).status).toBe(404);
    await site.store.projects.insert({ id: "p-two", name: "two", createdAt: 1 });
    const stranger = await site.account("admin", "p-two");
    expect((await mint(page.id, { user: "ada" }, stranger)).status).toBe(403);
    const path = `/v2/projects/p-two/service-accounts/${page.id}/tokens`;
    expect((await site.ask("POST", path, { token: stranger, body: { user: "ada" } })).status).toBe(404);
  });

  verifies(
    "call.users.end",
    "an end user's token ends by its time, and with the account, its expiry and its rotation",
    async () => {
      const { clock, site, token, create, change, mint } = await openSite(kind);
      const make = async (user = "ada", expiresInSeconds = 7_200) => {
        const { json: page } = await create(PAGE);
        const { json } = await mint(page.id, { user, expiresInSeconds });
        return { id: page.id as string, minted: json.token as string, page: page.token as string };
      };
      const isGood = async (text: string): Promise<boolean> =>
        await site.tokens.admit(text).then(
          () => true,
          () => false,
        );
      const short = await make("ada", 60);
      const revoked = await make();
      const ending = await make();
      const rotated = await make();
      const overlapping = await make();
      for (const { minted } of [short, revoked, ending, rotated, overlapping])
        expect(await isGood(minted)).toBe(true);
      await site.ask("DELETE", `${PATH}/${revoked.id}`, { token });
      expect(await isGood(revoked.minted)).toBe(false);
      expect((await mint(revoked.id, { user: "ada" })).status).toBe(404);
      const rotate = async (id: string, overlapSeconds: number) =>
        await site.ask("POST", `${PATH}/${id}/rotate`, { token, body: { overlapSeconds } });
      await rotate(rotated.id, 0);
      expect([await isGood(rotated.minted), await isGood(rotated.page)]).toEqual([false, false]);
      expect(await isGood((await mint(rotated.id, { user: "ada" })).json.token)).toBe(true);
      await rotate(overlapping.id, 600);
      // A second rotation does not give the first one's tokens more time.
      await rotate(overlapping.id, 3_600);
      expect(await isGood(overlapping.minted)).toBe(true);
      await change(ending.id, { expiresAt: new Date(clock.nowMs + 120_000).toISOString() });
      // A new one cannot outlive the account.
      const late = await mint(ending.id, { user: "ada", expiresInSeconds: 3_600 });
      expect(Date.parse(late.json.expiresAt)).toBe(clock.nowMs + 120_000);
      clock.advance(59_999);
      expect(await isGood(short.minted)).toBe(true);
      clock.advance(1);
      expect([await isGood(short.minted), await isGood(short.page)]).toEqual([false, true]);
      clock.advance(60_000);
      expect([await isGood(ending.minted), await isGood(late.json.token)]).toEqual([false, false]);
      expect((await mint(ending.id, { user: "ada" })).status).toBe(404);
      clock.advance(600_000 - 120_000 - 1);
      expect(await isGood(overlapping.minted)).toBe(true);
      clock.advance(1);
      expect(await isGood(overlapping.minted)).toBe(false);
    },
  );
});

/** Tokens as they are judged once the account's row says another role, whoever wrote that. */
class IdentityWithRole {
  readonly #site: IdentitySite;
  readonly #role: Role;

  constructor(site: IdentitySite, role: Role) {
    this.#site = site;
    this.#role = role;
  }

  async verify(token: string) {
    const { Tokens } = await import("../../../src/identity/tokens.ts");
    const { store, keys, clock } = this.#site;
    const findByJtiHash: typeof store.tokens.findByJtiHash = async (hash) => {
      const known = await store.tokens.findByJtiHash(hash);
      return known && { ...known, account: { ...known.account, role: this.#role } };
    };
    const altered = { ...store, tokens: { findByJtiHash } };
    return await new Tokens({ store: altered, keys, instanceId: "instance", clock, graceMs: 0 }).verify(
      token,
    );
  }
}

test("an account of role call whose limits are not known may do nothing", async () => {
  const { site } = await openSite();
  const token = await site.account("call");
  await expect(site.tokens.verify(token)).rejects.toMatchObject({ code: "unauthorized" });
});
