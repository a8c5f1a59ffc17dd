import { afterAll, beforeAll, expect } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { MailServer, secretIn } from "../../support/mail-server.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const mail = await MailServer.openShared();
const clock = new SkippingClock();
const flags = { smtpUrl: mail.url, smtpFrom: "Millrace <no-reply@millrace.example>" };
const service = sharedService({}, flags, { clock });
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});
afterAll(() => mail.close());

/** The next mail to that address that comes after so many; it is not waited for longer than it takes. */
async function mailTo(to: string, after = 0): Promise<{ text: string; head: string }> {
  clock.skip(2_000);
  return await mail.mailTo(to, after);
}

verifies(
  ["invitation.mailed", "address.proof", "password.mail", "mail.smtp"],
  "a service with a mail server invites, proves and helps who forgot, by links to its own address",
  async () => {
    const { baseUrl } = service().service;
    const email = "eve@example.com";
    const invited = await site.call("createInvitation", {}, { body: { email, send: "mail" } });
    expect(invited.json).toMatchObject({ isMailed: true, inviteUrl: null });
    const invitation = await mailTo(email);
    expect(invitation.head).toContain("From: Millrace <no-reply@millrace.example>");
    expect(invitation.text).toContain(`${baseUrl}/invitation#`);
    const body = { link: secretIn(invitation), email, password: "the words of eve" };
    const eve = await site.call("signUp", {}, { as: "nobody", body });
    const asEve = { as: "nobody", headers: { authorization: `Bearer ${eve.json.accessToken}` } } as const;
    expect((await site.call("getMe", {}, asEve)).json).toMatchObject({ email, isProven: true });

    const other = "eve@other.example";
    await site.call("changeEmail", {}, { ...asEve, body: { email: other, password: body.password } });
    expect((await site.call("getMe", {}, asEve)).json).toMatchObject({ email: other, isProven: false });
    await site.call("askForProof", {}, asEve);
    const proof = await mailTo(other);
    expect(proof.text).toContain(`${baseUrl}/prove#`);
    await site.call("proveEmail", {}, { ...asEve, body: { link: secretIn(proof) } });
    expect((await site.call("getMe", {}, asEve)).json).toMatchObject({ email: other, isProven: true });

    await site.call("forgotPassword", {}, { as: "nobody", body: { email: other } });
    const forgotten = await mailTo(other, 1);
    expect(forgotten.text).toContain(`${baseUrl}/password#`);
    const chosen = { link: secretIn(forgotten), password: "new words of eve" };
    const again = await site.call("acceptPasswordLink", {}, { as: "nobody", body: chosen });
    expect(again.json.personId).toBe(eve.json.personId);
    expect(mail.taken.map(({ to }) => to)).toEqual([email, other, other]);
  },
);
