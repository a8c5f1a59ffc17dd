import { describe, expect, test } from "vitest";
import { noteOwnerAccount } from "../../../src/identity/owner.ts";
import { addressSites } from "../../support/address-site.ts";
import { triedKinds } from "../../support/databases.ts";
import { type Asked, claimsOf, OWN_URL } from "../../support/identity-site.ts";
import { MailServer, secretIn } from "../../support/mail-server.ts";
import { verifies } from "../../verifies.ts";

const X = "shared@example.com";
const openSite = addressSites();

describe.each(triedKinds("postgres"))("an address on %s", (kind) => {
  verifies("address.label", "is had by many, and each signs in to their own account", async () => {
    const { site, clock, person, signIn, change, me, token } = await openSite(kind);
    const people = [];
    for (let i = 0; i < 8; i++) people.push(await person(X, `the password ${i}`));
    for (const [i, { personId }] of people.entries()) {
      expect((await signIn(" Shared@Example.com", `the password ${i}`)).json).toMatchObject({ personId });
    }
    expect((await signIn(X, "the password 9")).status).toBe(401);
    // It reserves nothing: others may come to it, and leave it.
    const owner = await change(token, X, "correct horse");
    expect([owner.status, owner.json]).toEqual([200, { email: X }]);
    expect((await signIn(X, "correct horse")).json.personId).toBe((await me(token)).id);
    expect((await signIn("ada@example.com", "correct horse")).status).toBe(401);
    clock.advance(60_000);
    const [first] = people;
    expect((await change(first!.accessToken, "new@example.com", "the password 1")).status).toBe(401);
    expect((await change(first!.accessToken, "new@example.com", "the password 0")).status).toBe(200);
    expect((await signIn(X, "the password 0")).status).toBe(401);
    expect((await signIn("new@example.com", "the password 0")).json.personId).toBe(first!.personId);
    expect((await me(first!.accessToken)).email).toBe("new@example.com");
    // A password link from before belongs to who the person was.
    const link = site.links.password({ id: first!.personId, updatedAt: clock.nowMs - 1 }, "operator");
    expect((await site.ask("POST", "/v2/password", { body: { link, password: "taken again" } })).status).toBe(
      403,
    );
  });

  test("and a password together are one person's, and only who knows both can learn that", async () => {
    const { site, clock, token, person, signIn, change, ask } = await openSite(kind);
    const one = await person(X, "the same words");
    const link = await site.invite(token, { email: X });
    clock.advance(60_000);
    const refused = await site.signUp(link, X, "the same words");
    expect([refused.status, refused.json.message]).toEqual([400, expect.stringContaining("already exists")]);
    // The link is as good as before, for another password, and so is a change.
    const two = (await site.signUp(link, X, "other words then")).json;
    const passwords = { currentPassword: "other words then", newPassword: "the same words" };
    expect((await ask("/v2/me/password", two.accessToken, passwords)).status).toBe(400);
    const elsewhere = await person("elsewhere@example.com", "the same words");
    expect((await change(elsewhere.accessToken, X, "the same words")).status).toBe(400);
    const reset = site.links.password((await site.store.people.find(two.personId))!, "operator");
    const body = { link: reset, password: "the same words" };
    expect((await site.ask("POST", "/v2/password", { body })).status).toBe(400);
    const after = { link: reset, password: "words of their own" };
    expect((await site.ask("POST", "/v2/password", { body: after })).status).toBe(200);
    expect((await signIn(X, "the same words")).json.personId).toBe(one.personId);
    // At the same moment too.
    clock.advance(600_000);
    const links = [await site.invite(token, { email: X }), await site.invite(token, { email: X })];
    const both = await Promise.all(links.map((secret) => site.signUp(secret, X, "at the same time")));
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 400]));
  });

  test("that is changed while another is being proven counts as not proven", async () => {
    const { site, clock, person } = await openSite(kind);
    const { personId: id } = await person("own@example.com", "the password 1");
    for (let i = 0; i < 15; i++) {
      const [from, to] = [`own${i}@example.com`, `victim${i}@example.com`];
      const { updatedAt } = (await site.store.people.find(id))!;
      const changed = { id, signInKey: Buffer.alloc(32, i), now: clock.nowMs, updatedAt };
      await site.store.people.setEmail({ ...changed, email: from });
      const again = (await site.store.people.find(id))!.updatedAt;
      await Promise.all([
        site.store.people.prove({ id, email: from, now: clock.nowMs }),
        site.store.people.setEmail({ ...changed, email: to, updatedAt: again }),
      ]);
      const { email, provenAt } = (await site.store.people.find(id))!;
      expect([i, email, provenAt]).toEqual([i, to, null]);
    }
  });

  test("proven by two at the same moment is one's", async () => {
    const { site, clock, person } = await openSite(kind);
    const people = [await person(X, "the password 1"), await person(X, "the password 2")];
    const now = clock.nowMs;
    await Promise.all(people.map(({ personId: id }) => site.store.people.prove({ id, email: X, now })));
    const all = await site.store.people.listByEmail({ email: X, limit: 10 });
    expect(all.filter(({ provenAt }) => provenAt !== null)).toHaveLength(1);
  });
});

test("passwords that are planted beside somebody else's account count as guesses at it", async () => {
  const { site, clock, person, signIn, change, ask } = await openSite();
  await person(X, "the victims own words");
  clock.advance(86_400_000);
  const admin = await site.account("admin");
  const statuses = async (attempt: (i: number) => Promise<Asked>): Promise<number[]> => {
    const answers = [];
    for (let i = 0; i < 12; i++) answers.push((await attempt(i)).status);
    return answers;
  };
  const ten = [...Array.from({ length: 10 }, () => 200), 429, 429];
  const invitation = () => site.invite(admin, { email: X });
  expect(await statuses(async (i) => await site.signUp(await invitation(), X, `popular ${i} words`))).toEqual(
    ten,
  );
  // What is planted, whoever planted it signs in to freely; it was counted before.
  clock.advance(86_400_000);
  let current = "popular 0 words";
  const as: string = (await signIn(X, current)).json.accessToken;
  const next = async (i: number): Promise<Asked> => {
    const newPassword = `popular word ${i}`;
    const body = { currentPassword: current, newPassword };
    const answer = await ask("/v2/me/password", as, body);
    if (answer.status === 200) current = newPassword;
    return answer;
  };
  expect(await statuses(next)).toEqual(ten);
  // By a link, too, which a refusal does not use up.
  clock.advance(86_400_000);
  const { personId } = (await signIn(X, current)).json;
  const link = site.links.password((await site.store.people.find(personId))!, "operator");
  const guess = async (i: number) =>
    await site.ask("POST", "/v2/password", { body: { link, password: `popular ${i + 1} words` } });
  expect((await statuses((i) => guess(i % 9))).map((status) => (status === 429 ? 429 : 200))).toEqual(ten);
  clock.advance(86_400_000);
  const again: string = (await signIn(X, current)).json.accessToken;
  expect(await statuses(() => change(again, X, current))).toEqual(ten);
});

describe("with mail", () => {
  verifies("address.proof", "a mailed link proves an address, to its own account alone", async () => {
    const mail = await MailServer.open();
    const { site, clock, person, change, me, ask, signIn } = await openSite("sqlite", mail);
    const victim = await person("victim@example.com", "victims words");
    const mallory = await person("mallory@example.com", "mallorys words");
    // Mallory says that the victim's address is hers: mail goes to the victim, who may even open it.
    expect((await change(mallory.accessToken, "victim@example.com", "mallorys words")).status).toBe(200);
    expect((await ask("/v2/me/email/proof", mallory.accessToken)).json).toEqual({});
    const { text } = await site.mailTo("victim@example.com");
    expect(text).toContain(`${OWN_URL}/prove#`);
    const prove = async (as: string, link: string) => await ask("/v2/me/email/prove", as, { link });
    expect((await prove(victim.accessToken, secretIn({ text }))).status).toBe(403);
    expect(await me(mallory.accessToken)).toMatchObject({ isProven: false });
    expect(await me(victim.accessToken)).toMatchObject({ isProven: false });

    // The victim's own link is the victim's, and works while the address is theirs.
    await ask("/v2/me/email/proof", victim.accessToken);
    const own = secretIn(await site.mailTo("victim@example.com", 1));
    expect((await prove(mallory.accessToken, own)).status).toBe(403);
    expect((await prove(victim.accessToken, own)).json).toEqual({ email: "victim@example.com" });
    expect(await me(victim.accessToken)).toMatchObject({ isProven: true });

    // A link for the address before proves nothing of the one after.
    const eve = await person("eve@example.com", "the words of eve");
    await ask("/v2/me/email/proof", eve.accessToken);
    const evesLink = secretIn(await site.mailTo("eve@example.com"));
    await change(eve.accessToken, "victim@example.com", "the words of eve");
    expect((await prove(eve.accessToken, evesLink)).status).toBe(403);
    expect((await site.store.people.findProven("victim@example.com"))?.id).toBe(victim.personId);

    // Who has the mailbox now has the address: who proves it last.
    clock.advance(600_000);
    const late = await person("victim@example.com", "a late comer");
    await ask("/v2/me/email/proof", late.accessToken);
    const taken = secretIn(await site.mailTo("victim@example.com", 2));
    expect((await prove(late.accessToken, taken)).status).toBe(200);
    const again = (await signIn("victim@example.com", "victims words")).json;
    expect([again.personId, (await me(again.accessToken)).isProven]).toEqual([victim.personId, false]);
    clock.advance(86_400_000);
    const later = (await signIn("victim@example.com", "victims words")).json.accessToken;
    expect((await prove(later, own)).status).toBe(403);
  });

  verifies("password.mail", "a forgotten password is mailed for to a proven address alone", async () => {
    const mail = await MailServer.open();
    const { site, clock, person, signIn, forgotten } = await openSite("sqlite", mail);
    const unproven = await person(X, "the password 1");
    const proven = await person(X, "the password 2");
    await forgotten(X);
    await site.store.people.prove({ id: proven.personId, email: X, now: clock.nowMs });
    // Sent only after the answer: the one from before was looked at later, too.
    const asked = await site.ask("POST", "/v2/password/forgotten", {
      body: { email: X },
      headers: { host: "evil.example" },
    });
    expect([asked.status, asked.json]).toEqual([200, {}]);
    expect(mail.connections).toBe(0);
    const first = await site.mailTo(X);
    expect(first.text).toContain(`${OWN_URL}/password#`);
    const set = async (link: string, password: string) =>
      await site.ask("POST", "/v2/password", { body: { link, password } });
    expect((await set(secretIn(first), "quite another")).json).toMatchObject({ personId: proven.personId });
    expect((await set(secretIn(first), "once more then")).status).toBe(403);
    expect((await signIn(X, "the password 1")).json).toMatchObject({ personId: unproven.personId });
    expect((await signIn(X, "quite another")).json).toMatchObject({ personId: proven.personId });
    clock.advance(600_000);
    await forgotten(X);
    const late = await site.mailTo(X, 2);
    clock.advance(3_600_000);
    expect((await set(secretIn(late), "an hour later")).status).toBe(403);
  });
});

describe("without mail", () => {
  test("nothing can be proven or mailed for, and who asks is told", async () => {
    const { token, ask, forgotten } = await openSite();
    for (const { status, json } of [await forgotten(X), await ask("/v2/me/email/proof", token)]) {
      expect([status, json.message]).toEqual([404, expect.stringContaining("does not send mail")]);
    }
  });

  verifies("password.operator", "only the operator makes a link that sets a password", async () => {
    const { site, token, person, signIn, ask } = await openSite();
    const [one, two] = [await person(X, "the password 1"), await person(X, "the password 2")];
    const coOwner = await site.signUp(
      await site.invite(token, { email: "co@example.com", role: "owner" }),
      "co@example.com",
    );
    const admin = await site.account("admin");
    const ownersToken = await site.account("admin");
    const ownerAccount = String(claimsOf(ownersToken)["sub"]);
    await noteOwnerAccount(site.store, ownerAccount);
    const make = async (as: string, body: object) => await ask("/v2/password-links", as, body);
    for (const other of [one.accessToken, coOwner.json.accessToken, admin, await site.account("run")]) {
      expect((await make(other, { personId: one.personId })).status).toBe(403);
      expect((await make(other, {})).status).toBe(403);
    }
    // The owner's token has this right, so no other admin may have it made anew.
    const rotate = `/v2/projects/${site.projectId}/service-accounts/${ownerAccount}/rotate`;
    expect([(await ask(rotate, admin)).status, (await ask(rotate, coOwner.json.accessToken)).status]).toEqual(
      [403, 403],
    );
    for (const operator of [token, ownersToken]) {
      const many = await make(operator, { email: X });
      expect(many.json).toMatchObject({
        url: null,
        people: [
          { personId: one.personId, isProven: false, projectIds: [site.projectId] },
          { personId: two.personId },
        ],
      });
      expect((await make(operator, { email: "nobody@example.com" })).json).toEqual({ url: null, people: [] });
      const made = await make(operator, { personId: two.personId });
      expect(made.headers["cache-control"]).toBe("no-store");
      const link = String(made.json.url).split("#")[1];
      const body = { link, password: `chosen by ${operator === token ? "her" : "it"}` };
      expect((await site.ask("POST", "/v2/password", { body })).json.personId).toBe(two.personId);
      expect((await signIn(X, body.password)).json.personId).toBe(two.personId);
    }
    expect((await ask(rotate, token)).status).toBe(200);
  });
});
