import { DatabaseSync } from "node:sqlite";
import path from "node:path";
import { Client } from "pg";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Audit, type AuditFilter } from "../../../src/identity/audit.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { openStore } from "../../../src/store/store.ts";
import { inspectDatabase } from "../../../src/store/upkeep/whole-database.ts";
import { type TestDatabase, testDatabases, triedKinds } from "../../support/databases.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "audit.filters",
  "the changes of somebody, of a kind, of a target and of a time are listed alone",
  async () => {
    const store = await openStore(await databases.fresh("sqlite"));
    onTestFinished(async () => await store.close());
    const clock = new HandClock();
    const audit = new Audit(store, clock);
    const ACTIONS = ["secrets.replace", "app.scale", "app.restart"] as const;
    for (let i = 0; i < 60; i++) {
      const row = { number: i + 1, projectId: "p-one", createdAt: i * 1_000, hash: Buffer.alloc(32) };
      const change = {
        actor: `sa-${i % 2}`,
        action: ACTIONS[i % 3],
        target: `t-${i % 5}`,
        ip: "",
        requestId: "",
      };
      await store.auditEntries.append({ ...row, entry: JSON.stringify(change) });
    }
    const found = async (filter: AuditFilter, limit = 1_000, before?: number) => {
      const page = { projectId: "p-one", limit, ...(before !== undefined && { before }) };
      const { entries, next } = await audit.search(page, filter);
      return [entries.map(({ number }) => number), next];
    };
    const wanted = (is: (i: number) => boolean) =>
      Array.from({ length: 60 }, (_, i) => i)
        .filter(is)
        .map((i) => i + 1)
        .toReversed();
    expect(await found({ actor: "sa-1" })).toEqual([wanted((i) => i % 2 === 1), null]);
    expect(await found({ action: "app." })).toEqual([wanted((i) => i % 3 > 0), null]);
    expect(await found({ action: "app.scale", target: "t-1" })).toEqual([wanted((i) => i % 15 === 1), null]);
    expect(await found({ fromMs: 10_000, toMs: 12_000 })).toEqual([[12, 11], null]);
    expect(await found({ actor: "sa-0" }, 2)).toEqual([[59, 57], 57]);
    expect(await found({ actor: "sa-0" }, 2, 57)).toEqual([[55, 53], 53]);
    expect(await found({}, 59)).toEqual([wanted((i) => i > 0), 2]);
  },
);
const service = sharedService({ hello: { main: "def run():\n    return 1\n" } });
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

verifies(
  ["audit.list", "management.paging"],
  "every change is written down: who, what, from where, before and after, and never a secret",
  async () => {
    const app_id = `${site.projectId}-hello`;
    const { json: account } = await site.call("createServiceAccount", {}, { body: { name: "ci" } });
    await site.call("updateServiceAccount", { id: account.id }, { body: { role: "run" } });
    const { json: rotated } = await site.call("rotateServiceAccount", { id: account.id });
    await site.call("deleteServiceAccount", { id: account.id });
    await site.call("replaceProjectSecrets", {}, { body: { API_KEY: "hunter2" } });
    await site.call("replaceAppSecrets", { app_id }, { body: { TOKEN: "hunter3" } });
    const { json: secret } = await site.call("createWebhookSecret");
    await site.call("deleteWebhookSecret", { id: secret.id });
    const file_path = "a/empty";
    await site.call("beginUpload", {}, { body: { file_path, part_count: 0 } });
    await site.call("removeFile", { file_path });
    const span = { from: "2020-01-01T00:00:00Z", to: "2020-01-02T00:00:00Z" };
    await site.call("redeliverMany", {}, { body: span });
    const email = "eve@example.com";
    const { json: invited } = await site.call("createInvitation", {}, { as: "owner", body: { email } });
    const link = String(invited.inviteUrl).split("#")[1] ?? "";
    const signUp = { link, email, password: "the words of eve" };
    const { json: member } = await site.call("signUp", {}, { as: "nobody", body: signUp });
    const person_id: string = member.personId;
    await site.call("changeMember", { person_id }, { as: "owner", body: { role: "owner" } });
    const { json: revoked } = await site.call("createInvitation", {}, { as: "owner", body: { email } });
    await site.call("revokeInvitation", { invitation_id: revoked.id }, { as: "owner" });
    const removed = await site.call("removeMember", { person_id }, { as: "owner" });

    const { json, text } = await site.call("listAudit", { pageSize: "17" });
    const actions = json.items.map(({ action, target }: Record<string, string>) => [action, target]);
    expect(actions).toEqual([
      ["member.delete", person_id],
      ["invitation.delete", revoked.id],
      ["invitation.create", revoked.id],
      ["member.update", person_id],
      ["member.join", person_id],
      ["invitation.create", invited.id],
      ["delivery.redeliver", site.projectId],
      ["volume.remove", file_path],
      ["volume.write", file_path],
      ["webhook-secret.delete", secret.id],
      ["webhook-secret.create", secret.id],
      ["secrets.replace", app_id],
      ["secrets.replace", site.projectId],
      ["service-account.delete", account.id],
      ["service-account.rotate", account.id],
      ["service-account.update", account.id],
      ["service-account.create", account.id],
    ]);
    expect(json.items[0]).toMatchObject({
      actor: expect.stringMatching(/^u-/),
      ip: "127.0.0.1",
      requestId: removed.headers.get("x-request-id"),
    });
    expect(json.items[3]).toMatchObject({ before: { role: "member" }, after: { role: "owner" } });
    expect(json.items[4]).toMatchObject({ actor: null, after: { role: "member", invitationId: invited.id } });
    expect(json.items[12]).toMatchObject({
      actor: expect.stringMatching(/^sa-/),
      before: [],
      after: ["API_KEY"],
    });
    expect(json.items[15]).toMatchObject({ before: { role: "admin" }, after: { role: "run" } });
    for (const hidden of [account.token, rotated.token, secret.secret, "hunter", link]) {
      expect(text).not.toContain(hidden);
    }

    // In pages: all of it, once each, in order.
    const paged: string[] = [];
    for (let nextToken = ""; ;) {
      const page = await site.call("listAudit", { pageSize: "4", ...(nextToken !== "" && { nextToken }) });
      paged.push(...page.json.items.map(({ id }: { id: string }) => id));
      nextToken = page.json.nextToken;
      if (nextToken === "") break;
    }
    const whole = (await site.call("listAudit", { pageSize: "1000" })).json.items;
    expect(paged).toEqual(whole.map(({ id }: { id: string }) => id));
    expect((await site.ask("GET", "audit", { as: "stranger" })).status).toBe(403);
    const { audit } = await inspectDatabase(site.test.settings, false);
    expect(audit).toEqual({ count: expect.any(Number), brokenAt: null });
    expect(audit.count).toBeGreaterThanOrEqual(whole.length);
  },
);

/** Runs a statement as somebody who has got at the database itself. */
async function tamper({ databaseUrl, dataDir }: TestDatabase, statement: string): Promise<void> {
  if (databaseUrl === null) {
    const database = new DatabaseSync(path.join(dataDir, "millrace.db"));
    database.exec(statement);
    database.close();
    return;
  }
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(statement);
  await client.end();
}

/** What somebody may do to an entry, and the number of the first one that then does not fit; each before the last. */
const TAMPERED = [
  ["another text", "update audit_entries set entry = '{}' where number = 55", 55],
  ["another time", "update audit_entries set created_at = created_at + 1 where number = 50", 50],
  ["another project", "update audit_entries set project_id = 'p-two' where number = 45", 45],
  ["no project", "update audit_entries set project_id = null where number = 40", 40],
  ["an entry taken out", "delete from audit_entries where number = 35", 35],
  ["an entry in another's place", "update audit_entries set number = 35 where number = 30", 30],
  ["the first taken out", "delete from audit_entries where number = 1", 1],
] as const;

describe.each(triedKinds("postgres"))("on %s", (kind) => {
  test("the chain is whole however many write at once, and whatever is changed later breaks it", async () => {
    const database = await databases.fresh(kind);
    const store = await openStore(database);
    onTestFinished(() => store.close());
    // Two processes that write at the same time.
    const audits = [new Audit(store, systemClock), new Audit(store, systemClock)];
    const change = { projectId: "p-one", action: "x.change", before: null, after: { a: 1 }, principal: null };
    await Promise.all(
      Array.from({ length: 60 }, async (_, place) => {
        await audits[place % 2]?.record({ ...change, target: String(place), ip: "::1", requestId: "r" });
      }),
    );
    const [audit] = audits;
    expect(await audit?.list({ projectId: "p-one", limit: 100 })).toHaveLength(60);
    expect(await audit?.list({ projectId: "p-two", limit: 100 })).toEqual([]);
    const found = async () => (await inspectDatabase(database, false)).audit;
    expect(await found()).toEqual({ count: 60, brokenAt: null });
    for (const [what, statement, number] of TAMPERED) {
      await tamper(database, statement);
      expect([what, await found()]).toEqual([what, { count: number - 1, brokenAt: number }]);
    }
  });

  verifies(
    "retention.audit",
    "old entries go, the newest stays, and a change of the rest is still found",
    async () => {
      const database = await databases.fresh(kind);
      const store = await openStore(database);
      onTestFinished(() => store.close());
      const clock = new HandClock();
      const audit = new Audit(store, clock);
      const change = { projectId: "p-one", action: "x.change", before: null, after: null, principal: null };
      const record = async (target: string) =>
        await audit.record({ ...change, target, ip: "::1", requestId: "r" });
      for (let place = 1; place <= 10; place++) {
        await record(String(place));
        clock.advance(1_000);
      }
      const before = clock.now() - 4_500;
      const found = async () => (await inspectDatabase(database, false)).audit;
      expect(await store.auditEntries.expire({ before, limit: 4 })).toBe(4);
      expect(await found()).toEqual({ count: 6, brokenAt: null });
      expect(await store.auditEntries.expire({ before, limit: 4 })).toBe(2);
      expect(await store.auditEntries.expire({ before, limit: 4 })).toBe(0);
      const left = await audit.list({ projectId: "p-one", limit: 100 });
      expect(left.map(({ target }) => target)).toEqual(["10", "9", "8", "7"]);
      // The next one goes on from the last, which is never removed.
      expect(await store.auditEntries.expire({ before: clock.now(), limit: 100 })).toBe(3);
      await record("11");
      expect(await found()).toEqual({ count: 2, brokenAt: null });
      await tamper(database, "update audit_entries set entry = '{}' where number = 11");
      expect(await found()).toEqual({ count: 1, brokenAt: 11 });
      await tamper(database, "delete from audit_entries where number = 10");
      expect((await found()).brokenAt).toBe(10);
    },
  );
});
