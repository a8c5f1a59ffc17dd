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
  verifies("invitation.attack", "nobody of one project gains what somebody has in another", async () => {
    const mail = way === "with mail" ? await MailServer.open() : null;
    const clock = new HandClock();
    const site = await IdentitySite.open(await databases.fresh("sqlite"), clock, { ...(mail && { mail }) });
    await site.setUp();
    const victims = VICTIMS.filter((victim) => mail !== null || !NEEDS_MAIL.test(victim));
    const cases: string[] = [];
    for (const attacker of ATTACKERS) {
      for (const victim of victims) {
        const attack = new InvitationAttack({ site, clock, mail, number: cases.length });
        const attempts = await attack.run(attacker, victim);
        expect(attempts).toBeGreaterThan(20);
        cases.push(`${attacker} on ${victim}: ${attempts}`);
      }
    }
    expect(cases).toHaveLength(ATTACKERS.length * (mail ? 8 : 4));
  });
});
