import { describe, expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { IdentitySite } from "../../support/identity-site.ts";
import { ATTACKERS, InvitationAttack, VICTIMS } from "../../support/invitation-attack.ts";
import { MailServer } from "../../support/mail-server.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NEEDS_MAIL = /proven|by mail/;

describe.each([{ way: "with mail" }, { way: "without mail" }])("$way", ({ way }) => {
  for (const attacker of ATTACKERS) {
    verifies("invitation.attack", `the ${attacker} of one project gains nothing in another`, async () => {
      const mail = way === "with mail" ? await MailServer.open() : null;
      const clock = new HandClock();
      const options = { ...(mail && { mail }) };
      const site = await IdentitySite.open(await databases.fresh("sqlite"), clock, options);
      await site.setUp();
      const victims = VICTIMS.filter((victim) => mail !== null || !NEEDS_MAIL.test(victim));
      expect(victims).toHaveLength(mail ? 8 : 4);
      for (const [number, victim] of victims.entries()) {
        const attempts = await new InvitationAttack({ site, clock, mail, number }).run(attacker, victim);
        expect([victim, attempts > 20]).toEqual([victim, true]);
      }
    });
  }
});
