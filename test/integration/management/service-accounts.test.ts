import { describe, expect, onTestFinished, test } from "vitest";
import { Audit } from "../../../src/identity/audit.ts";
import { Operators } from "../../../src/identity/owner.ts";
import { bearerToken } from "../../../src/identity/principal.ts";
import { Tokens } from "../../../src/identity/tokens.ts";
import { createLog } from "../../../src/kit/log.ts";
import { createListener } from "../../../src/management/api/listener.ts";
import type { ManagementParts } from "../../../src/management/parts.ts";
import { mount } from "../../../src/management/api/mount.ts";
import { serviceAccountOperations } from "../../../src/management/projects/service-accounts.ts";
import type { Store } from "../../../src/store/store.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { HandClock, SkippingClock } from "../../support/clocks.ts";
import { IdentitySite, claimsOf } from "../../support/identity-site.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const DAY_MS = 86_400_000;
const PATH = "/v2/projects/p-one/service-accounts";

async function openSite(kind: "sqlite" | "postgres" = "sqlite") {
  const clock = new HandClock();
  const site = await IdentitySite.open(await databases.fresh(kind), clock);
  const token = await site.account("admin");
  const create = (body: unknown) => site.ask("POST", PATH, { token, body });
  return { clock, site, token, create };
}

describe.each(triedKinds("sqlite"))("service accounts on %s", (kind) => {
  verifies(
    ["sa.create", "sa.create.v2", "sa.create.project-id", "sa.create.response", "sa.create.no-store"],
    "creating one answers 200 with exactly the contract's members, not to be stored",
    async () => {
      const { clock, site, create } = await openSite(kind);
      const { status, json, headers } = await create({
        name: "ci",
        description: "for the pipeline",
        role: "deploy",
        expiresAt: "2026-03-01T08:00:00+02:00",
      });
      expect(status).toBe(200);
      expect(headers["cache-control"]).toBe("no-store");
      expect(json).toEqual({
        id: expect.stringMatching(/^sa-/) as string,
        name: "ci",
        description: "for the pipeline",
        role: "deploy",
        projectId: "p-one",
        createdAt: new Date(clock.nowMs).toISOString(),
        expiresAt: "2026-03-01T06:00:00.000Z",
        token: expect.any(String) as string,
      });
      const { principal } = await site.tokens.verify(json.token);
      expect(principal).toMatchObject({ accountId: json.id, projectId: "p-one", role: "deploy" });
      expect(claimsOf(json.token)["exp"]).toBe(Date.parse("2026-03-01T06:00:00Z") / 1000);
    },
  );

  verifies("fair.weight-bounds", "an account has the weight 1, or what it was given", async () => {
    const { site, token, create } = await openSite(kind);
    const plain = (await create({ name: "plain" })).json;
    await create({ name: "heavy", weight: 100 });
    const weights = async () => {
      const { json } = await site.ask("GET", PATH, { token });
      return Object.fromEntries(
        json.map(({ name, weight }: { name: string; weight: number }) => [name, weight]),
      );
    };
    expect(await weights()).toMatchObject({ plain: 1, heavy: 100 });
    const change = async (weight: unknown) =>
      await site.ask("PATCH", `${PATH}/${plain.id}`, { token, body: { weight } });
    expect((await change(7)).json).toMatchObject({ name: "plain", weight: 7 });
    expect(await weights()).toMatchObject({ plain: 7, heavy: 100 });
    for (const weight of [0, 101, 1.5, "5", null]) expect((await change(weight)).status).toBe(400);
    expect((await create({ name: "none", weight: 0 })).status).toBe(400);
    // Its tokens have it at once.
    const { principal } = await site.tokens.verify(plain.token);
    expect(principal.fairness).toEqual({ key: plain.id, weight: 7 });
  });

  verifies(
    ["sa.list", "sa.token-once", "sa.several"],
    "the list has every account, its last use and its end, and no token",
    async () => {
      const { clock, site, token, create } = await openSite(kind);
      const names = ["dev", "staging", "production"];
      const made = [];
      for (const name of names) {
        clock.nowMs += 1_000;
        made.push((await create({ name })).json);
      }
      await site.ask("GET", PATH, { token: made[0].token });
      await site.ask("DELETE", `${PATH}/${made[1].id}`, { token });
      const list = async () => (await site.ask("GET", PATH, { token })).json as Record<string, unknown>[];
      const usedAt = new Date(clock.nowMs).toISOString();
      await until("the use is written down", async () => (await list())[2]?.["lastUsedAt"] === usedAt);
      const { text, json } = await site.ask("GET", PATH, { token });
      expect(json.map(({ name }: { name: string }) => name)).toEqual([...names.toReversed(), "admin"]);
      expect(json[0]).toEqual({
        id: made[2].id,
        name: "production",
        description: null,
        role: "admin",
        projectId: "p-one",
        createdAt: made[2].createdAt,
        expiresAt: made[2].expiresAt,
        lastUsedAt: null,
        weight: 1,
        quotas: null,
        revokedAt: null,
      });
      expect(json[1]).toMatchObject({ revokedAt: usedAt });
      for (const { token: secret } of made) expect(text).not.toContain(secret);
    },
  );

  test("a use is written down once a minute at most", async () => {
    const { clock, site, create } = await openSite(kind);
    const { json } = await create({ name: "busy" });
    const uses: number[] = [];
    const touchLastUsed: Store["accounts"]["touchLastUsed"] = async (use) => {
      await site.store.accounts.touchLastUsed(use);
      uses.push(use.usedAt);
    };
    const counting = { ...site.store, accounts: { ...site.store.accounts, touchLastUsed } };
    const tokens = new Tokens({
      store: counting,
      keys: site.keys,
      instanceId: "instance",
      clock,
      graceMs: 300_000,
    });
    const firstAt = clock.nowMs;
    await tokens.verify(json.token);
    await until("the use is written down", () => uses.length === 1);
    clock.nowMs += 59_999;
    await tokens.verify(json.token);
    clock.nowMs += 1;
    await tokens.verify(json.token);
    await until("the later one is", () => uses.includes(firstAt + 60_000));
    expect(uses).toEqual([firstAt, firstAt + 60_000]);
  });

  verifies(
    ["sa.update", "sa.update.role-wins"],
    "a change shows at once; a lower role wins over the token's claim; an expiry only comes nearer",
    async () => {
      const { clock, site, token, create } = await openSite(kind);
      const { json } = await create({ name: "one", description: "first" });
      const change = (body: unknown) => site.ask("PATCH", `${PATH}/${json.id}`, { token, body });
      expect((await site.ask("GET", PATH, { token: json.token })).status).toBe(200);
      const { status, json: changed } = await change({ name: "two", description: null, role: "run" });
      expect([status, changed]).toEqual([
        200,
        expect.objectContaining({ name: "two", description: null, role: "run", id: json.id }),
      ]);
      expect(claimsOf(json.token)["role"]).toBe("admin");
      expect((await site.ask("GET", PATH, { token: json.token })).status).toBe(403);

      const expiresAt = new Date(clock.nowMs + DAY_MS).toISOString();
      expect((await change({ expiresAt })).json).toMatchObject({ expiresAt, name: "two" });
      expect((await change({ expiresAt: new Date(clock.nowMs + 2 * DAY_MS).toISOString() })).status).toBe(
        400,
      );
      expect((await change({})).json).toMatchObject({ expiresAt });
      clock.nowMs += DAY_MS;
      expect((await site.ask("GET", PATH, { token: json.token })).status).toBe(401);
    },
  );

  verifies("sa.rotate", "rotating gives a new token, and the old one lives for the overlap", async () => {
    const { clock, site, token, create } = await openSite(kind);
    const { json: made } = await create({ name: "one", expiresAt: "2026-02-14" });
    const status = async (shown: string) => (await site.ask("GET", PATH, { token: shown })).status;
    const rotate = async (body?: unknown) =>
      await site.ask("POST", `${PATH}/${made.id}/rotate`, { token, body });
    expect(await status(made.token)).toBe(200);
    clock.nowMs += DAY_MS;
    const first = await rotate({ overlapSeconds: 60 });
    expect(first.status).toBe(200);
    expect(first.headers["cache-control"]).toBe("no-store");
    // As long as the first was to live.
    const expiresAt = new Date(Date.parse(made.expiresAt) + DAY_MS).toISOString();
    expect(first.json).toEqual({ ...made, token: first.json.token, expiresAt });
    expect([await status(made.token), await status(first.json.token)]).toEqual([200, 200]);
    clock.nowMs += 60_000;
    expect([await status(made.token), await status(first.json.token)]).toEqual([401, 200]);
    const second = await rotate();
    expect([await status(first.json.token), await status(second.json.token)]).toEqual([401, 200]);
    const third = await rotate({ expiresAt: "2026-01-20" });
    expect(third.json.expiresAt).toBe("2026-01-20T23:59:59.999Z");
  });

  verifies("sa.delete", "a deleted account's token stops at once here, within 5 s elsewhere", async () => {
    const database = await databases.fresh(kind);
    const clock = new HandClock();
    const here = await IdentitySite.open(database, clock);
    const elsewhere = kind === "postgres" ? await IdentitySite.open(database, clock) : null;
    const token = await here.account("admin");
    const { json } = await here.ask("POST", PATH, { token, body: { name: "short" } });
    const status = async (site: IdentitySite) => (await site.ask("GET", PATH, { token: json.token })).status;
    expect(await status(here)).toBe(200);
    if (elsewhere) expect(await status(elsewhere)).toBe(200);
    const deleted = await here.ask("DELETE", `${PATH}/${json.id}`, { token });
    expect(deleted).toMatchObject({
      status: 200,
      json: { id: json.id, revokedAt: expect.any(String) as string },
    });
    expect(await status(here)).toBe(401);
    expect((await here.ask("DELETE", `${PATH}/${json.id}`, { token })).status).toBe(200);
    clock.nowMs += 5_001;
    if (elsewhere) expect(await status(elsewhere)).toBe(401);
    for (const [method, path] of [
      ["PATCH", `${PATH}/${json.id}`],
      ["POST", `${PATH}/${json.id}/rotate`],
      ["DELETE", `${PATH}/sa-none`],
    ] as const) {
      expect((await here.ask(method, path, { token, ...(method !== "DELETE" && { body: {} }) })).status).toBe(
        404,
      );
    }
  });
});

describe("the body of a new account", () => {
  verifies(
    ["sa.create.expiry-names", "sa.create.bare-date"],
    "names its expiry in four ways; a bare date is the end of that day in UTC",
    async () => {
      const { create } = await openSite();
      for (const name of ["expiresAt", "expires_at", "expiry", "expiryDate"]) {
        expect((await create({ name, [name]: "2026-02-01T00:00:00Z" })).json.expiresAt).toBe(
          "2026-02-01T00:00:00.000Z",
        );
        expect((await create({ name, [name]: "2026-02-01" })).json.expiresAt).toBe(
          "2026-02-01T23:59:59.999Z",
        );
      }
      expect((await create({ name: "x", expiry: "2026-02-01", expiresAt: null })).status).toBe(200);
      expect((await create({ name: "x", expiry: "2026-02-01", expires_at: "2026-02-01" })).status).toBe(200);
      expect((await create({ name: "x", expiry: "2026-02-01", expires_at: "2026-02-02" })).status).toBe(400);
    },
  );

  verifies("sa.create.defaults", "without more than a name it is an admin for 90 days", async () => {
    const { clock, create } = await openSite();
    expect((await create({ name: "x" })).json).toMatchObject({
      role: "admin",
      description: null,
      expiresAt: new Date(clock.nowMs + 90 * DAY_MS).toISOString(),
    });
  });

  verifies("sa.create.request", "is refused with the fault's name when a member is not right", async () => {
    const { site, token, create } = await openSite();
    const ok = { name: "x".repeat(100), description: "<b>two\nlines</b>", role: "run" };
    expect((await create(ok)).json).toMatchObject(ok);
    const bad: Record<string, unknown[]> = {
      name: [undefined, null, "", "  ", "x".repeat(101), 7, "two\nlines", "bell\u0007"],
      description: [7, "bell\u0007", "x".repeat(1001)],
      role: ["owner", "", "ADMIN", 1],
      expiresAt: [
        "",
        "tomorrow",
        1_800_000_000,
        "2026-02-30",
        "2026-13-01T00:00:00Z",
        "2026-02-01T00:00:00",
        "2026-02-01 00:00:00Z",
        "2026-02-01T25:00:00Z",
        "2026-01-14",
        "2026-01-15T12:00:00Z",
        "2526-01-01",
      ],
    };
    for (const [member, values] of Object.entries(bad)) {
      for (const value of values) {
        const { status, json } = await create({ name: "x", [member]: value });
        expect([member, value, status, json.code]).toEqual([member, value, 400, "bad_request"]);
        expect(json.message).toContain(member);
      }
    }
    expect((await create({ name: "\ud800" })).status).toBe(400);
    for (const body of [undefined, null, [], "x", 1]) {
      const payload = body === undefined ? {} : { body: JSON.stringify(body) };
      const headers = { "content-type": "application/json" };
      expect((await site.ask("POST", PATH, { token, headers, ...payload })).status).toBe(400);
    }
  });

  test("every change is written down, with who made it, and without the token", async () => {
    const { site, token, create } = await openSite();
    const { json } = await create({ name: "one" });
    const path = `${PATH}/${json.id}`;
    await site.ask("PATCH", path, { token, body: { role: "run" } });
    const rotated = await site.ask("POST", `${path}/rotate`, { token });
    await site.ask("DELETE", path, { token });
    const entries = await site.audit.list({ projectId: "p-one", limit: 10 });
    expect(entries.map(({ action, target }) => [action, target])).toEqual(
      ["delete", "rotate", "update", "create"].map((verb) => [`service-account.${verb}`, json.id]),
    );
    const { accountId } = (await site.tokens.verify(token)).principal as { accountId: string };
    for (const entry of entries) expect(entry).toMatchObject({ actor: accountId, ip: "192.0.2.1" });
    expect(entries[2]).toMatchObject({ before: { role: "admin" }, after: { role: "run" } });
    const text = JSON.stringify(entries);
    for (const secret of [json.token, rotated.json.token]) expect(text).not.toContain(secret);
  });
});

verifies(
  ["token.both-planes", "sa.create.bearer"],
  "a token made by the API calls an app until it expires, and none is made without a token",
  async () => {
    const clock = new SkippingClock();
    const service = await testService({ app: { main: "def run():\n    return 1\n" } }, {}, { clock });
    const { store, tokens, owner } = service.service;
    const app = createListener(createLog("silent"));
    onTestFinished(() => app.close());
    const audit = new Audit(store, clock);
    const operators = new Operators(store);
    const parts = { store, tokens, operators, clock } as unknown as ManagementParts;
    const authenticate = async (header: string | null) => (await tokens.admit(bearerToken(header))).principal;
    mount(app, serviceAccountOperations(parts), { authenticate, audit });
    const path = `/v2/projects/${owner.projectId}/service-accounts`;
    const ask = async (method: "POST" | "PATCH", url: string, payload: object, authorization = "") =>
      await app.inject({ method, url, headers: { authorization }, payload });
    const bearer = `Bearer ${owner.token}`;
    expect((await ask("POST", path, { name: "x", role: "run" })).statusCode).toBe(401);
    const made = (await ask("POST", path, { name: "x", role: "run" }, bearer)).json<Record<string, string>>();
    const { id = "", token = "" } = made;
    const call = async () => (await service.call("app", {}, { token })).status;
    expect(await call()).toBe(200);
    const expiresAt = new Date(clock.now() + 600_000).toISOString();
    expect((await ask("PATCH", `${path}/${id}`, { expiresAt }, bearer)).statusCode).toBe(200);
    expect(await call()).toBe(200);
    clock.skip(600_000);
    expect(await call()).toBe(401);
  },
);
