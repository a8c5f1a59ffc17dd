import { type DatabaseKind, testDatabases } from "./databases.ts";
import { HandClock } from "./clocks.ts";
import { IdentitySite } from "./identity-site.ts";
import type { MailServer } from "./mail-server.ts";

/** Opens sites for tests of people's addresses: what they ask again and again, by name. */
export function addressSites() {
  const databases = testDatabases();
  return async (kind: DatabaseKind = "sqlite", mail?: MailServer) => {
    const clock = new HandClock();
    const site = await IdentitySite.open(await databases.fresh(kind), clock, { ...(mail && { mail }) });
    const token: string = (await site.setUp()).json.accessToken;
    const person = async (
      email: string,
      password: string,
    ): Promise<{ personId: string; accessToken: string }> => {
      // Else so many people would count as somebody who guesses.
      clock.advance(60_000);
      return (await site.signUp(await site.invite(token, { email }), email, password)).json;
    };
    const signIn = async (email: string, password: string) =>
      await site.ask("POST", "/v2/session", { body: { email, password } });
    const change = async (as: string, email: string, password: string) =>
      await site.ask("POST", "/v2/me/email", { token: as, body: { email, password } });
    const me = async (as: string) => (await site.ask("GET", "/v2/me", { token: as })).json;
    const ask = async (url: string, as: string, body?: object) =>
      await site.ask("POST", url, { token: as, ...(body && { body }) });
    const forgotten = async (email: string, ip = "192.0.2.1") =>
      await site.ask("POST", "/v2/password/forgotten", { body: { email }, ip });
    return { site, clock, token, person, signIn, change, me, ask, forgotten };
  };
}
