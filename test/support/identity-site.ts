import { AsyncLocalStorage } from "node:async_hooks";
import path from "node:path";
import type { FastifyInstance } from "fastify";
import { onTestFinished } from "vitest";
import type { Audit } from "../../src/identity/audit.ts";
import { bearerToken } from "../../src/identity/principal.ts";
import { identityParts } from "../../src/identity/identity-parts.ts";
import { KeyRing } from "../../src/identity/key-ring.ts";
import { Links } from "../../src/identity/links.ts";
import { Mailer } from "../../src/identity/mailer.ts";
import type { Hash } from "../../src/identity/passwords.ts";
import type { People } from "../../src/identity/people.ts";
import type { Role } from "../../src/model/roles.ts";
import type { Sessions } from "../../src/identity/sessions.ts";
import { Tokens } from "../../src/identity/tokens.ts";
import type { Clock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { Seal, loadMasterKey } from "../../src/kit/seal.ts";
import { createListener } from "../../src/management/api/listener.ts";
import { tokenOperations } from "../../src/management/people/tokens.ts";
import type { ManagementParts } from "../../src/management/parts.ts";
import { mount } from "../../src/management/api/mount.ts";
import type { Operation } from "../../src/management/api/operation.ts";
import { invitationLinkOperations, memberOperations } from "../../src/management/projects/members.ts";
import { accountOperations, signInOperations } from "../../src/management/people/sign-in.ts";
import { projectOperations } from "../../src/management/projects/projects.ts";
import { serviceAccountOperations } from "../../src/management/projects/service-accounts.ts";
import type { Store } from "../../src/store/store.ts";
import { cheapHash } from "./cheap-hashes.ts";
import { HandClock } from "./clocks.ts";
import type { TestDatabase } from "./databases.ts";
import type { MailServer, TakenMail } from "./mail-server.ts";
import { openOneThreadStore } from "./one-thread-store.ts";

/** What was answered. */
export type Asked = {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly text: string;
  /** The body as JSON. */
  // oxlint-disable-next-line no-explicit-any
  readonly json: any;
  /** What was asked of the store and what was hashed before it was answered, in order. */
  readonly work: readonly string[];
};

export type AskOptions = {
  readonly token?: string | null;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly ip?: string;
};

export type SiteOptions = {
  readonly publicBaseUrl?: string;
  /** Where its mail goes, if it sends any. */
  readonly mail?: MailServer;
};

/** Where links in mails lead. */
export const OWN_URL = "https://millrace.example";
/** By then a mail that was ordered has begun. */
const MAIL_MS = 2_000;

/** Identity and its routes on a database, as one process of a service has them. */
export class IdentitySite {
  readonly projectId = "p-one";
  readonly store: Store;
  readonly keys: KeyRing;
  readonly tokens: Tokens;
  readonly sessions: Sessions;
  readonly people: People;
  readonly links: Links;
  readonly audit: Audit;
  readonly clock: Clock;
  readonly operations: readonly Operation[];
  readonly #app: FastifyInstance;
  readonly #mailer: Mailer | null;
  /** The mailer's own: a test that goes forward by hours must not cut off a mail that is on its way. */
  readonly #mailClock = new HandClock();
  readonly #mail: MailServer | null;

  private constructor(store: Store, keys: KeyRing, seal: Seal, clock: Clock, options: SiteOptions) {
    const { publicBaseUrl = null, mail = null } = options;
    this.store = store;
    this.keys = keys;
    this.clock = clock;
    this.tokens = new Tokens({ store, keys, instanceId: "instance", clock, graceMs: 300_000 });
    this.links = new Links(seal, clock);
    const hashPassword: Hash = async (password, salt, cost) => {
      note(`hash ${JSON.stringify(cost)}`);
      return await cheapHash(password, salt, cost);
    };
    const log = createLog(process.env["TEST_LOG"] ?? "silent");
    this.#mail = mail;
    this.#mailer =
      mail &&
      new Mailer({
        smtpUrl: mail.url,
        smtpFrom: "no-reply@millrace.example",
        clock: this.#mailClock,
        log,
      });
    const post = this.#mailer && { mailer: this.#mailer, baseUrl: () => OWN_URL };
    const { tokens } = this;
    const identity = identityParts({ store, seal, tokens, post, hashPassword }, clock);
    this.audit = identity.audit;
    this.sessions = identity.sessions;
    this.people = identity.people;
    const accountWeights = { learn: async () => {} };
    const projectQuotas = { learn: async () => {} };
    const own = {
      store,
      keys,
      tokens,
      accountWeights,
      projectQuotas,
      clock,
      publicBaseUrl,
      projectId: this.projectId,
    };
    const parts = { ...identity, ...own } as unknown as ManagementParts;
    this.operations = [
      ...serviceAccountOperations(parts),
      ...projectOperations(parts),
      ...signInOperations(parts),
      ...invitationLinkOperations(parts),
      ...accountOperations(parts),
      ...memberOperations(parts),
      ...tokenOperations(parts),
    ];
    this.#app = createListener(log);
    mount(this.#app, this.operations, {
      authenticate: async (authorization) => (await this.tokens.admit(bearerToken(authorization))).principal,
      requireOperator: (principal) => identity.operators.require(principal),
      audit: this.audit,
    });
  }

  /** Two sites on one database and one data directory are two processes of one service. */
  static async open(
    database: TestDatabase,
    clock: Clock = new HandClock(),
    options: SiteOptions = {},
  ): Promise<IdentitySite> {
    const store = counting(await openOneThreadStore(database));
    const seal = new Seal(loadMasterKey(path.join(database.dataDir, "master.key")));
    const keys = await KeyRing.open(store, seal, clock);
    const site = new IdentitySite(store, keys, seal, clock, options);
    await store.projects.insert({ id: site.projectId, name: "one", createdAt: clock.now() });
    onTestFinished(async () => {
      await site.#app.close();
      await site.#mailer?.stop();
      await store.close();
    });
    return site;
  }

  /** Sends a request; a path without its slash is of the project. */
  async ask(
    method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE",
    url: string,
    options: AskOptions = {},
  ): Promise<Asked> {
    const { token, body, headers, ip = "192.0.2.1" } = options;
    const work: string[] = [];
    const request = {
      method,
      url: url.startsWith("/") ? url : `/v2/projects/${this.projectId}/${url}`,
      remoteAddress: ip,
      headers: { ...(token ? { authorization: `Bearer ${token}` } : {}), ...headers },
      ...(body !== undefined && { payload: body as object | string }),
    };
    // Awaited in there: it begins only then.
    const answer = await WORK.run(work, async () => await this.#app.inject(request));
    const { statusCode: status, body: text } = answer;
    return { status, headers: answer.headers, text, json: parse(text), work };
  }

  /** A token of the project. */
  async account(role: Role = "admin", projectId = this.projectId): Promise<string> {
    const expiresAt = this.clock.now() + 30 * 86_400_000;
    return (await this.tokens.issue({ projectId, name: role, role, expiresAt })).token;
  }

  /** The mail to that address that comes after so many of them; what was ordered leaves now, and not before. */
  async mailTo(to: string, after = 0): Promise<TakenMail> {
    if (!this.#mail) throw new Error("this site sends no mail");
    this.#mailClock.advance(MAIL_MS);
    return await this.#mail.mailTo(to, after);
  }

  /** Invites somebody to a project; the secret of the link. */
  async invite(token: string, body: object, projectId = this.projectId): Promise<string> {
    const { status, json, text } = await this.ask("POST", `/v2/projects/${projectId}/invitations`, {
      token,
      body,
    });
    if (status !== 200) throw new Error(`no invitation: ${text}`);
    return String(json.inviteUrl).split("#")[1] ?? "";
  }

  /** Opens an invitation's link as somebody new. */
  async signUp(link: string, email: string, password = "correct horse"): Promise<Asked> {
    return await this.ask("POST", "/v2/invitation/sign-up", { body: { link, email, password } });
  }

  /** Makes the first person; the answer to the sign-in. */
  async setUp(email = "ada@example.com", password = "correct horse"): Promise<Asked> {
    return await this.ask("POST", "/v2/setup", { body: { link: this.links.setup(), email, password } });
  }
}

/** The work of the request that is being answered; what comes after it is done elsewhere. */
const WORK = new AsyncLocalStorage<string[]>();

function note(what: string): void {
  WORK.getStore()?.push(what);
}

/** A store that notes what is asked of it. */
function counting(store: Store): Store {
  const tables = Object.entries(store).map(([table, calls]) => {
    if (typeof calls !== "object" || table === "commits") return [table, calls] as const;
    const noted = Object.entries(calls as Record<string, (input: never) => unknown>).map(([name, call]) => [
      name,
      (input: never) => {
        note(`${table}.${name}`);
        return call(input);
      },
    ]);
    return [table, Object.fromEntries(noted) as unknown] as const;
  });
  return Object.fromEntries(tables) as Store;
}

/** The `name=value` of the cookie that an answer sets. */
export function cookieOf({ headers }: Asked): string {
  return String(headers["set-cookie"]).split(";")[0] ?? "";
}

/** The claims of a token, unchecked. */
export function claimsOf(token: string): Record<string, unknown> {
  const [, body = ""] = token.split(".");
  return JSON.parse(Buffer.from(body, "base64url").toString()) as Record<string, unknown>;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
