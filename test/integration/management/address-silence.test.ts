import { expect } from "vitest";
import { addressSites } from "../../support/address-site.ts";
import type { Asked } from "../../support/identity-site.ts";
import { MailServer } from "../../support/mail-server.ts";
import { verifies } from "../../verifies.ts";

const X = "shared@example.com";
const openSite = addressSites();

/** All that an answer tells, but for what is new in every one. */
function told({ status, headers, json }: Asked): unknown {
  const { "x-request-id": _, date: __, ...rest } = headers;
  return { status, headers: rest, json: { ...json, request_id: "" } };
}

verifies("address.silent", "no answer tells whether anybody has an address", async () => {
  const mail = await MailServer.open();
  const { site, clock, token, person, signIn, change, forgotten, ask } = await openSite("sqlite", mail);
  const proven = await person("proven@example.com", "the password 0");
  await site.store.people.prove({ id: proven.personId, email: "proven@example.com", now: clock.nowMs });
  await person("one@example.com", "the password 1");
  for (let i = 0; i < 5; i++) await person("many@example.com", `the password ${i}`);
  await site.invite(token, { email: "invited@example.com" });
  const mallory = await person("mallory@example.com", "mallorys words");
  const addresses = ["nobody", "one", "many", "proven", "invited", "ada"].map(
    (name) => `${name}@example.com`,
  );

  const admin = await site.account("admin");
  const invitations = `/v2/projects/${site.projectId}/invitations`;
  const asMallory = async (): Promise<string> => {
    const { email } = (await site.store.people.find(mallory.personId))!;
    return (await signIn(email, "mallorys words")).json.accessToken;
  };
  /** Everything that can be asked with an address in it. */
  const questions: readonly (readonly [string, number, (email: string) => Promise<Asked>])[] = [
    ["sign-in", 401, (email) => signIn(email, "wrong password")],
    ["forgotten", 200, (email) => forgotten(email)],
    ["invite", 200, (email) => ask(invitations, admin, { email })],
    ["invite by mail", 200, (email) => ask(invitations, admin, { email, send: "mail" })],
    ["change", 200, async (email) => await change(await asMallory(), email, "mallorys words")],
    [
      "sign-up",
      200,
      async (email) => await site.signUp(await site.invite(admin, { email: X }), email, "of their own"),
    ],
  ];
  for (const [question, status, asked] of questions) {
    const answers: string[][] = [];
    for (const email of addresses) {
      clock.advance(600_000);
      const answer = await asked(email);
      expect([question, email, answer.status]).toEqual([question, email, status]);
      // What comes of it later has its own time, and nobody knows which.
      expect([question, answer.work.length > 0]).toEqual([question, question !== "forgotten"]);
      const text = JSON.stringify({ work: answer.work, told: told(answer) });
      answers.push([question, unnamed(text.replaceAll(email, "ADDRESS"))]);
    }
    expect(answers).toEqual(answers.map(() => answers[0]));
  }
  // Nor does how often one may ask.
  const limits = [];
  for (const email of ["nobody@example.com", "proven@example.com"]) {
    clock.advance(86_400_000);
    const statuses = [];
    for (let i = 0; i < 5; i++) statuses.push((await forgotten(email, `198.51.100.${i}`)).status);
    limits.push(statuses);
  }
  expect(limits).toEqual([
    [200, 200, 200, 429, 429],
    [200, 200, 200, 429, 429],
  ]);
});

/** Without what is new in every answer: ids, secrets, tokens, times. */
function unnamed(text: string): string {
  return text
    .replaceAll(/eyJ[\w.-]+/g, "TOKEN")
    .replaceAll(/mrr_[\w-]+/g, "COOKIE")
    .replaceAll(/#[\w-]{43}/g, "#SECRET")
    .replaceAll(/[\da-f]{8}-[\da-f-]{27}/g, "ID")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/"content-length":"\d+"/g, "LENGTH");
}
