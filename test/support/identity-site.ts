import path from "node:path";
import type { FastifyInstance } from "fastify";
import { onTestFinished } from "vitest";
import { Audit } from "../../src/identity/audit.ts";
import { bearerToken } from "../../src/identity/bearer.ts";
import { Devices } from "../../src/identity/devices.ts";
import { KeyRing } from "../../src/identity/key-ring.ts";
import { Links } from "../../src/identity/links.ts";
import { Passwords, scryptHash } from "../../src/identity/passwords.ts";
import { People } from "../../src/identity/people.ts";
import type { Role } from "../../src/identity/principal.ts";
import { Sessions } from "../../src/identity/sessions.ts";
import { SignInThrottle } from "../../src/identity/throttle.ts";
import { Tokens } from "../../src/identity/tokens.ts";
import type { Clock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { Seal, loadMasterKey } from "../../src/kit/seal.ts";
import { createListener } from "../../src/management/api/listener.ts";
import { mount } from "../../src/management/api/mount.ts";
import type { AnyOperation } from "../../src/management/api/operation.ts";
import { deviceOperations } from "../../src/management/devices.ts";
import { jwksOperations } from "../../src/management/jwks.ts";
import { meOperations } from "../../src/management/me.ts";
import { memberOperations } from "../../src/management/members.ts";
import { serviceAccountOperations } from "../../src/management/service-accounts.ts";
import { signInOperations } from "../../src/management/sign-in.ts";
import type { Store } from "../../src/store/store.ts";
import { HandClock } from "./clocks.ts";
import type { TestDatabase } from "./databases.ts";
import { openOneThreadStore } from "./one-thread-store.ts";

/** What was answered. */
export type Asked = {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly text: string;
  /** The body as JSON. */
  // oxlint-disable-next-line no-explicit-any
  readonly json: any;
};

export type AskOptions = {
  readonly token?: string | null;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly ip?: string;
};

export type SiteOptions = {
  readonly publicBaseUrl?: string;
  /** Stands between the site and its store. */
  readonly aroundStore?: (store: Store) => Store;
};

/** Of a hash that takes milliseconds. */
export const LOW_COST = { N: 2 ** 10, r: 8, p: 1 };

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
  readonly operations: readonly AnyOperation[];
  /** The cost of each password that was hashed so far. */
  readonly hashed: Readonly<Record<string, number>>[] = [];
  readonly #app: FastifyInstance;

  private constructor(store: Store, keys: KeyRing, seal: Seal, clock: Clock, options: SiteOptions) {
    const { publicBaseUrl = null } = options;
    this.store = store;
    this.keys = keys;
    this.clock = clock;
    this.tokens = new Tokens(store, keys, "instance", clock);
    this.audit = new Audit(store, clock);
    this.sessions = new Sessions(this);
    this.links = new Links(seal, clock);
    const passwords = new Passwords(seal, LOW_COST, async (password, salt, cost) => {
      this.hashed.push(cost);
      return await scryptHash(password, salt, cost);
    });
    const { tokens, sessions, links, audit } = this;
    const throttle = new SignInThrottle(clock);
    this.people = new People({ store, tokens, sessions, passwords, links, throttle, clock });
    const { people } = this;
    const devices = new Devices(store, sessions, clock);
    const parts = { store, keys, tokens, sessions, people, devices, audit, clock, publicBaseUrl };
    this.operations = [
      ...serviceAccountOperations(parts),
      ...signInOperations(parts),
      ...meOperations(parts),
      ...memberOperations(parts),
      ...deviceOperations(parts),
      ...jwksOperations(parts),
    ];
    this.#app = createListener(createLog(process.env["TEST_LOG"] ?? "silent"));
    mount(this.#app, this.operations, async (authorization) => {
      return (await this.tokens.admit(bearerToken(authorization))).principal;
    });
  }

  /** Two sites on one database and one data directory are two processes of one service. */
  static async open(
    database: TestDatabase,
    clock: Clock = new HandClock(),
    options: SiteOptions = {},
  ): Promise<IdentitySite> {
    const { aroundStore = (store: Store) => store } = options;
    const store = aroundStore(await openOneThreadStore(database));
    const seal = new Seal(loadMasterKey(path.join(database.dataDir, "master.key")));
    const keys = await KeyRing.open(store, seal, clock);
    const site = new IdentitySite(store, keys, seal, clock, options);
    await store.projects.insert({ id: site.projectId, name: "one", createdAt: clock.now() });
    onTestFinished(async () => {
      await site.#app.close();
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
    const answer = await this.#app.inject({
      method,
      url: url.startsWith("/") ? url : `/v2/projects/${this.projectId}/${url}`,
      remoteAddress: ip,
      headers: { ...(token ? { authorization: `Bearer ${token}` } : {}), ...headers },
      ...(body !== undefined && { payload: body as object | string }),
    });
    const { statusCode: status, body: text } = answer;
    return { status, headers: answer.headers, text, json: parse(text) };
  }

  /** A token of the project. */
  async account(role: Role = "admin", projectId = this.projectId): Promise<string> {
    const expiresAt = this.clock.now() + 30 * 86_400_000;
    return (await this.tokens.issue({ projectId, name: role, role, expiresAt })).token;
  }

  /** Makes the first person; the answer to the sign-in. */
  async setUp(email = "ada@example.com", password = "correct horse"): Promise<Asked> {
    return await this.ask("POST", "/v2/setup", { body: { link: this.links.setup(), email, password } });
  }
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
