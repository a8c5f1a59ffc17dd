import { expect } from "vitest";
import { Links } from "../../src/identity/links.ts";
import { Seal } from "../../src/kit/seal.ts";
import type { HandClock } from "./clocks.ts";
import { type Asked, type AskOptions, cookieOf, type IdentitySite } from "./identity-site.ts";
import { type MailServer, secretIn } from "./mail-server.ts";

/** What somebody is in the attacker's project. */
export const ATTACKERS = ["owner", "member", "admin token", "deploy token", "run token"] as const;
/** What the victim is in the other project, and how they became it. */
export const VICTIMS = [
  "owner",
  "member",
  "owner who is invited",
  "member who is invited",
  "owner who has proven",
  "member who has proven",
  "owner who is invited by mail",
  "member who is invited by mail",
] as const;

const WORDS = { victim: "the victims own words", attacker: "the attackers words" };

type Stage = {
  readonly site: IdentitySite;
  readonly clock: HandClock;
  readonly mail: MailServer | null;
  /** Different for each case: their addresses, projects and networks are their own. */
  readonly number: number;
};

/** One attacker, one victim, two projects; and everything the attacker could get hold of. */
export class InvitationAttack {
  readonly #stage: Stage;
  readonly #a: string;
  readonly #b: string;
  readonly #victim: string;
  readonly #mallory: string;
  readonly #ip: string;
  /** Every token that anything has given the attacker. */
  readonly loot = new Set<string>();
  /** Those of persons that the attacker has made. */
  readonly #own = new Set<string>();
  #attempts = 0;

  constructor(stage: Stage) {
    const { number } = stage;
    this.#stage = stage;
    this.#a = `p-a${number}`;
    this.#b = `p-b${number}`;
    this.#victim = `victim${number}@example.com`;
    this.#mallory = `mallory${number}@evil.example`;
    this.#ip = `203.0.113.${number}`;
  }

  /** Sets the stage, lets the attacker try everything, and says what the victim is in A then. */
  async run(attacker: (typeof ATTACKERS)[number], victim: string): Promise<number> {
    const { site } = this.#stage;
    for (const id of [this.#a, this.#b]) await site.store.projects.insert({ id, name: id, createdAt: 1 });
    const role = victim.startsWith("owner") ? "owner" : "member";
    const open = await this.#placeVictim(victim, role);
    const before = await this.#membersOfA();
    const token = await this.#placeAttacker(attacker);
    await this.#invitations(token);
    await this.#passwords(token);
    if (attacker === "owner" || attacker === "member") await this.#addresses(token);
    await this.#devices(token);
    await this.#members(token, before);
    await this.#holdsNothing();
    expect(await this.#membersOfA()).toEqual(before);
    await this.#victimIs(role, open);
    return this.#attempts;
  }

  async #placeVictim(victim: string, role: "owner" | "member"): Promise<string | null> {
    const { site } = this.#stage;
    const admin = await site.account("admin", this.#a);
    const isMailed = victim.endsWith("by mail");
    const body = { email: this.#victim, role, ...(isMailed && { send: "mail" }) };
    const invited = await site.invite(admin, body, this.#a);
    const link = isMailed ? secretIn(await this.#mailed(this.#victim)) : invited;
    if (victim.includes("invited")) return link;
    const { accessToken } = (
      await this.#ask("POST", "/v2/invitation/sign-up", {
        body: { link, email: this.#victim, password: WORDS.victim },
        ip: "192.0.2.9",
      })
    ).json;
    if (!victim.endsWith("proven")) return null;
    await this.#ask("POST", "/v2/me/email/proof", { token: accessToken });
    const proof = secretIn(await this.#mailed(this.#victim));
    const proven = await this.#ask("POST", "/v2/me/email/prove", {
      token: accessToken,
      body: { link: proof },
    });
    expect(proven.status).toBe(200);
    return null;
  }

  /** Sits in B by right, with a mailbox of their own. */
  async #placeAttacker(attacker: (typeof ATTACKERS)[number]): Promise<string> {
    const { site } = this.#stage;
    if (attacker.endsWith("token")) {
      const [role] = attacker.split(" ") as ["admin" | "deploy" | "run"];
      return await site.account(role, this.#b);
    }
    const admin = await site.account("admin", this.#b);
    const link = await site.invite(admin, { email: this.#mallory, role: attacker }, this.#b);
    return await this.#signUp(link, this.#mallory);
  }

  /** Invites the victim's address to B in every way, and opens what can be had of it in every way. */
  async #invitations(token: string): Promise<void> {
    const links: string[] = [];
    for (const role of ["owner", "member"]) {
      for (const email of [this.#victim, this.#victim.toUpperCase()]) {
        const made = await this.#try("POST", `/v2/projects/${this.#b}/invitations`, {
          token,
          body: { email, role },
        });
        if (made.status === 200) links.push(String(made.json.inviteUrl).split("#")[1] ?? "");
      }
    }
    const body = { email: this.#victim, role: "owner", send: "mail" };
    const headers = { host: "evil.example" };
    await this.#try("POST", `/v2/projects/${this.#b}/invitations`, { token, body, headers });
    for (const link of links.slice(0, 2)) await this.#signUp(link, this.#victim);
    const [, , third = "", fourth = ""] = links;
    await this.#try("POST", "/v2/invitation", { body: { link: third } });
    await this.#try("POST", "/v2/invitation/join", { token, body: { link: third } });
    // None of them is any other kind of link.
    for (const [url, more] of [
      ["/v2/password", { password: WORDS.attacker }],
      ["/v2/setup", { password: WORDS.attacker, email: this.#victim }],
      ["/v2/me/email/prove", {}],
    ] as const) {
      const { status } = await this.#try("POST", url, { token, body: { link: fourth || "none", ...more } });
      expect([url, [400, 403].includes(status)]).toEqual([url, true]);
    }
    await this.#try("GET", `/v2/projects/${this.#a}/invitations`, { token });
    const invitation = { email: this.#mallory, role: "owner" };
    await this.#try("POST", `/v2/projects/${this.#a}/invitations`, { token, body: invitation });
    const open = await this.#stage.site.store.invitations.list({ projectId: this.#a, now: 0 });
    for (const { id } of open) {
      for (const project of [this.#a, this.#b]) {
        await this.#try("DELETE", `/v2/projects/${project}/invitations/${id}`, { token });
      }
    }
  }

  /** Asks for a new password of the victim's everywhere, and makes up links. */
  async #passwords(token: string): Promise<void> {
    const { site, clock } = this.#stage;
    const victims = await site.store.people.listByEmail({ email: this.#victim, limit: 20 });
    const forged = new Links(new Seal(Buffer.alloc(32, 1)), clock);
    for (const { id, updatedAt } of victims) {
      await this.#linkFor(token, { personId: id });
      const link = forged.password({ id, updatedAt }, "operator");
      await this.#try("POST", "/v2/password", { body: { link, password: WORDS.attacker } });
      const proof = forged.proof({ id, email: this.#victim });
      await this.#try("POST", "/v2/me/email/prove", { token, body: { link: proof } });
    }
    await this.#linkFor(token, { email: this.#victim });
    const body = { email: this.#victim };
    await this.#try("POST", "/v2/password/forgotten", { body, headers: { host: "evil.example" } });
    await this.#signIn(this.#victim, WORDS.attacker);
    const passwords = { currentPassword: WORDS.attacker, newPassword: "other attackers words" };
    await this.#try("POST", "/v2/me/password", { token, body: passwords });
    await this.#try("POST", "/v2/me/password", {
      token,
      body: { currentPassword: passwords.newPassword, newPassword: WORDS.attacker },
    });
  }

  /** Has a password link made for somebody, and uses it if there is one. */
  async #linkFor(token: string, body: object): Promise<void> {
    const { json } = await this.#try("POST", "/v2/password-links", { token, body });
    const link = String(json.url ?? "").split("#")[1] ?? "none";
    await this.#try("POST", "/v2/password", { body: { link, password: WORDS.attacker } });
  }

  /** Goes by the victim's address, and lets mail vouch for it. */
  async #addresses(token: string): Promise<void> {
    const { mail } = this.#stage;
    let own = "";
    await this.#try("POST", "/v2/me/email/proof", { token });
    if (mail) own = secretIn(await this.#mailed(this.#mallory));
    const change = (email: string) =>
      this.#try("POST", "/v2/me/email", { token, body: { email, password: WORDS.attacker } });
    await change(this.#victim);
    // A link for the address before.
    await this.#try("POST", "/v2/me/email/prove", { token, body: { link: own || "none" } });
    await this.#try("POST", "/v2/me/email/proof", { token });
    await this.#try("POST", "/v2/password/forgotten", { body: { email: this.#victim } });
    await this.#signIn(this.#victim, WORDS.attacker);
    const { json } = await this.#try("GET", "/v2/me", { token });
    expect(json).toMatchObject({ email: this.#victim, isProven: false });
    // Mail for the attacker's own mailbox, opened under the victim's address.
    if (mail) {
      const admin = await this.#stage.site.account("admin", this.#b);
      const body = { email: this.#mallory, send: "mail" };
      await this.#stage.site.ask("POST", `/v2/projects/${this.#b}/invitations`, { token: admin, body });
      await this.#signUp(secretIn(await this.#mailed(this.#mallory)), this.#victim);
    }
    const proven = await this.#stage.site.store.people.findProven(this.#victim);
    expect(proven === null || !this.#own.has(proven.id)).toBe(true);
    await change(this.#mallory);
  }

  /** By way of a command line, and of cookies. */
  async #devices(token: string): Promise<void> {
    const { json } = await this.#try("POST", "/device-authorization", {});
    const { device_code, user_code } = json.deviceAuthResponsePayload;
    await this.#try("POST", "/device/approve", { token, body: { user_code } });
    const redeemed = await this.#try("POST", "/token", { body: { device_code } });
    const { refreshToken } = redeemed.json;
    if (typeof refreshToken !== "string") return;
    const form = { grant_type: "refresh_token", client_id: this.#victim, refresh_token: refreshToken };
    await this.#try("POST", "/token", { body: form });
    const headers = { cookie: `millrace_refresh=${refreshToken}` };
    expect((await this.#try("POST", "/v2/session/refresh", { headers })).status).toBe(401);
    const signedIn = await this.#signIn(this.#mallory, WORDS.attacker);
    const cookie = cookieOf(signedIn);
    await this.#try("POST", "/v2/session/refresh", { headers: { cookie } });
    // The family of one session with the secret of another.
    const crossed = cookie.slice(0, -43) + refreshToken.slice(-43);
    await this.#try("POST", "/v2/session/refresh", { headers: { cookie: crossed } });
  }

  /** Changes who belongs where, and makes a project of the same name. */
  async #members(token: string, before: readonly string[]): Promise<void> {
    const ids = [...this.#own, ...before.map((entry) => entry.split(" ")[0] ?? "")];
    for (const id of ids) {
      for (const [method, url] of [
        ["PATCH", `/v2/projects/${this.#a}/members/${id}`],
        ["DELETE", `/v2/projects/${this.#a}/members/${id}`],
      ] as const) {
        await this.#try(method, url, { token, ...(method === "PATCH" && { body: { role: "owner" } }) });
      }
      if (this.#own.has(id)) continue;
      const url = `/v2/projects/${this.#b}/members/${id}`;
      await this.#try("PATCH", url, { token, body: { role: "member" } });
      await this.#try("DELETE", url, { token });
    }
    await this.#try("POST", "/v2/projects", { token, body: { name: this.#a } });
  }

  /** Nothing the attacker holds has any right in A, and every account behind it is one they made. */
  async #holdsNothing(): Promise<void> {
    const { mail } = this.#stage;
    for (const token of this.loot) {
      for (const url of ["members", "service-accounts"]) {
        const { status } = await this.#ask("GET", `/v2/projects/${this.#a}/${url}`, { token });
        expect([url, status === 403 || status === 401]).toEqual([url, true]);
      }
      const { json } = await this.#ask("GET", "/v2/me", { token });
      if (json.id === undefined) continue;
      expect(this.#own.has(json.id)).toBe(true);
      expect(json.projects.map(({ id }: { id: string }) => id)).not.toContain(this.#a);
    }
    // And no mail to the attacker's box speaks for another.
    for (const { to, text } of mail?.taken ?? []) {
      if (to === this.#mallory) expect(text).not.toContain("/password#");
      expect(text).not.toContain("evil.example/");
    }
  }

  /** What the victim had, or was promised, is theirs. */
  async #victimIs(role: "owner" | "member", open: string | null): Promise<void> {
    const ip = "192.0.2.9";
    const { clock } = this.#stage;
    // What the attacker has done in the victim's name is over by then.
    clock.advance(600_000);
    const body = { email: this.#victim, password: WORDS.victim };
    const signedIn =
      open === null
        ? await this.#ask("POST", "/v2/session", { body, ip })
        : await this.#ask("POST", "/v2/invitation/sign-up", { body: { ...body, link: open }, ip });
    expect(signedIn.status).toBe(200);
    const { json } = await this.#ask("GET", "/v2/me", { token: signedIn.json.accessToken });
    expect(json.projects).toEqual([{ id: this.#a, name: this.#a, role }]);
  }

  async #membersOfA(): Promise<string[]> {
    const members = await this.#stage.site.store.memberships.list(this.#a);
    return members.map(({ personId, role }) => `${personId} ${role}`);
  }

  async #signUp(link: string, email: string): Promise<string> {
    // Under the victim's address a password of its own each time: the pair is one person's.
    const password = email === this.#mallory ? WORDS.attacker : `planted ${this.#attempts}`;
    const body = { link, email, password };
    const { status, json } = await this.#try("POST", "/v2/invitation/sign-up", { body });
    if (status === 200) this.#own.add(json.personId);
    return json.accessToken ?? "";
  }

  async #signIn(email: string, password: string): Promise<Asked> {
    return await this.#try("POST", "/v2/session", { body: { email, password } });
  }

  /** Something that the attacker does: what it gives them is kept. */
  async #try(method: Method, url: string, options: AskOptions): Promise<Asked> {
    this.#attempts += 1;
    const answer = await this.#ask(method, url, options);
    expect([url, answer.status < 500]).toEqual([url, true]);
    const { json } = answer;
    for (const token of [json?.accessToken, json?.access_token]) {
      if (typeof token === "string") this.loot.add(token);
    }
    if (options.token) this.loot.add(options.token);
    return answer;
  }

  async #ask(method: Method, url: string, options: AskOptions): Promise<Asked> {
    return await this.#stage.site.ask(method, url, { ip: this.#ip, ...options });
  }

  /** The newest mail to that address. */
  async #mailed(to: string) {
    const { site, mail } = this.#stage;
    const had = mail?.taken.filter((taken) => taken.to === to).length ?? 0;
    return await site.mailTo(to, had);
  }
}

type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
