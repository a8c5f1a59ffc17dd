import type { Readable } from "node:stream";
import { APP_NAME } from "../../model/names.ts";
import { PROJECTS, REFRESHED_TOKEN } from "../../shapes/people.ts";
import type { Infer, Shape } from "../../shapes/shape.ts";
import { CliFailure, usage } from "../failure.ts";
import { type About, explain, readJson } from "./explain.ts";
import { type Answer, send, textOf } from "./http.ts";
import { changeProfile, claimsOf, type Site } from "./site.ts";

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

type Asking = {
  readonly query?: Query;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly about?: About;
  /** Sent even after the command was interrupted: to cancel what it began. */
  readonly isParting?: boolean;
};

/** Where a running service can be called, and as whom. */
export type Address = {
  readonly apiUrl: string;
  readonly baseUrl: string;
  readonly projectId: string;
  readonly token: string;
};

/** A client of a service whose address is known. */
export function apiOf({ projectId, ...rest }: Address, signal: AbortSignal): Api {
  return new Api({ ...rest, project: projectId, tokenSource: "this service" }, signal);
}

/** How long a command that was interrupted waits for the service to answer. */
const PARTING_MS = 5_000;

/** A service as its HTTP clients see it: both planes, one token, errors as sentences. */
export class Api {
  /** Its project and token may change with time. */
  site: Site;
  readonly signal: AbortSignal;

  constructor(site: Site, signal: AbortSignal) {
    this.site = site;
    this.signal = signal;
  }

  /** The project: from flags, variables or the profile, from the token, or the only one there is. */
  async project(): Promise<string> {
    const { project, token } = this.site;
    const known = project ?? claimsOf(token ?? "").project_id;
    const [first, ...others] =
      known === undefined ? await this.get(PROJECTS, "/v2/projects") : [{ id: known }];
    if (!first) throw usage("you have no project yet", "millrace projects create NAME");
    if (others.length > 0)
      throw usage("you have several projects; choose one", "millrace projects use ID, or --project ID");
    this.site = { ...this.site, project: first.id };
    return first.id;
  }

  /** The path of a project on the management plane, and what follows it. */
  async path(rest: string): Promise<string> {
    return `/v2/projects/${await this.project()}/${rest}`;
  }

  async appPath(app: string, rest = ""): Promise<string> {
    const project = await this.project();
    return await this.path(`apps/${project}-${await this.appName(app)}${rest}`);
  }

  /** An app's name; its id, as lists of the API show it, means the same. */
  async appName(app: string): Promise<string> {
    const prefix = `${await this.project()}-`;
    const name = app.startsWith(prefix) ? app.slice(prefix.length) : app;
    if (APP_NAME.test(name)) return name;
    throw usage(`${JSON.stringify(app)} cannot be the name of an app`, "millrace apps list shows the apps");
  }

  /** The address of an app on the other plane, and what follows it. */
  async appUrl(app: string, rest: string): Promise<string> {
    const { apiUrl, baseUrl } = this.site;
    if (apiUrl === null) {
      throw usage(
        `the address of the app endpoints of ${baseUrl} is not known`,
        "set MILLRACE_API_URL, or millrace login URL --api-url URL",
      );
    }
    return `${apiUrl}/v4/${await this.project()}/${await this.appName(app)}/${rest}`;
  }

  /** The address of a path of an app that is a server, its query as it was typed; throws where dots lead out of the app. */
  async pathUrl(app: string, path: string): Promise<URL> {
    const base = new URL(await this.appUrl(app, ""));
    const url = URL.parse(`${base.href}${path.slice(1)}`);
    if (!url?.href.startsWith(base.href)) throw usage(`${JSON.stringify(path)} is not a path below ${app}`);
    url.hash = "";
    return url;
  }

  async get<S extends Shape>(shape: S, path: string, asking: Asking = {}): Promise<Infer<S>> {
    return await this.ask(shape, "GET", path, asking);
  }

  /** Asks and reads JSON of that shape; throws a sentence for anything but success. */
  async ask<S extends Shape>(shape: S, method: string, path: string, asking: Asking = {}): Promise<Infer<S>> {
    const answer = await this.open(method, path, asking);
    const text = await textOf(answer);
    if (answer.status >= 400) throw explain(answer.status, text, this.site, asking.about);
    return readJson(shape, text, this.site.baseUrl);
  }

  /** Asks and leaves the body of any answer to be read; a path is of the management plane. */
  async open(method: string, path: string, asking: Asking = {}): Promise<Answer> {
    const { baseUrl, token } = this.site;
    if (token === null) {
      const hint = `millrace login ${baseUrl}, or set MILLRACE_TOKEN`;
      throw new CliFailure(`no token for ${baseUrl}`, { code: "unauthorized", hint });
    }
    const answer = await this.#send(method, path, asking);
    if (answer.status !== 401 || isReadable(asking.body) || !(await this.#refresh())) return answer;
    answer.body.resume();
    return await this.#send(method, path, asking);
  }

  async #send(method: string, path: string, { query, body, headers, isParting }: Asking): Promise<Answer> {
    const url = new URL(path.startsWith("/") ? `${this.site.baseUrl}${path}` : path);
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const isBytes = typeof body === "string" || Buffer.isBuffer(body) || isReadable(body);
    return await send(url.href, {
      method,
      headers: {
        authorization: `Bearer ${this.site.token}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: isBytes ? body : JSON.stringify(body) }),
      signal: isParting ? AbortSignal.timeout(PARTING_MS) : this.signal,
    });
  }

  /** Puts bytes to a URL that carries its own right: no token goes with it. Gives the headers of the answer. */
  async put(url: string, body: Readable, sizeBytes: number, type?: string): Promise<Answer["headers"]> {
    const headers = { "content-length": String(sizeBytes), ...(type && { "content-type": type }) };
    const answer = await send(url, { method: "PUT", headers, body, signal: this.signal });
    const text = await textOf(answer);
    if (answer.status !== 200) throw explain(answer.status, text, this.site);
    return answer.headers;
  }

  /** Gets a new access token for a person who signed in; false if the service gives none. */
  async #refresh(): Promise<boolean> {
    const { baseUrl, refreshToken } = this.site;
    if (refreshToken === undefined) return false;
    const form = new URLSearchParams({
      grant_type: "refresh_token",
      client_id: "millrace",
      refresh_token: refreshToken,
    });
    const answer = await send(`${baseUrl}/token`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: String(form),
      signal: this.signal,
    });
    const text = await textOf(answer);
    if (answer.status !== 200) return false;
    const { access_token: token } = readJson(REFRESHED_TOKEN, text, baseUrl);
    this.site = { ...this.site, token };
    changeProfile(baseUrl, { token });
    return true;
  }
}

function isReadable(body: unknown): body is Readable {
  return typeof (body as Readable | undefined)?.pipe === "function";
}

/** The first entries of a list that comes in pages, as many as were asked for. */
export async function firstOf<Entry>(
  api: Api,
  pages: Shape<{ items: Entry[]; nextToken: string }>,
  path: string,
  limit: number,
  asking: Asking = {},
): Promise<Entry[]> {
  const found: Entry[] = [];
  let nextToken = "";
  do {
    const pageSize = Math.min(limit - found.length, 100);
    const query = { ...asking.query, pageSize, ...(nextToken !== "" && { nextToken }) };
    const page = await api.get(pages, path, { ...asking, query });
    found.push(...page.items);
    nextToken = page.nextToken;
  } while (nextToken !== "" && found.length < limit);
  return found;
}
