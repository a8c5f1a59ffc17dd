import path from "node:path";
import { expect } from "vitest";
import { z } from "zod";
import { Links } from "../../src/identity/links.ts";
import type { Role } from "../../src/model/roles.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { Seal, loadMasterKey } from "../../src/kit/seal.ts";
import type { TestService } from "./service.ts";

/** Everybody who may ask, from the one who may least. */
export const CALLERS = ["nobody", "stranger", "run", "deploy", "admin", "member", "owner"] as const;
export type Caller = (typeof CALLERS)[number];

export type Answered = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON. */
  // oxlint-disable-next-line no-explicit-any
  readonly json: any;
};

export type Asking = {
  readonly as?: Caller;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
};

type JsonSchema = Record<string, unknown>;

/** An operation as `/openapi.json` has it. */
export type Described = {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly security?: readonly object[];
  /** Who may call it. */
  readonly "x-access": string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: "path" | "query";
    readonly required: boolean;
    readonly schema: JsonSchema;
  }[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content: Content }>>;
};
type Content = Readonly<Record<string, { readonly schema: JsonSchema }>>;

/** A service's management API as its callers meet it: over HTTP, with a token of each kind. */
export class ManagementSite {
  readonly test: TestService;
  readonly tokens: Readonly<Record<Caller, string | null>>;
  // oxlint-disable-next-line no-explicit-any
  readonly document: any;
  readonly operations: readonly Described[];
  /** The operations that were answered 200. */
  readonly succeeded = new Set<string>();
  readonly #schemas = new WeakMap<object, z.ZodType>();

  private constructor(test: TestService, tokens: Record<Caller, string | null>, document: unknown) {
    this.test = test;
    this.tokens = tokens;
    this.document = document;
    this.operations = describedIn(this.document);
  }

  static async open(test: TestService): Promise<ManagementSite> {
    const { store, tokens, baseUrl } = test.service;
    await store.projects.insert({ id: "p-stranger", name: "stranger", createdAt: 1 });
    const issue = async (role: Role, projectId: string): Promise<string> =>
      (await tokens.issue({ projectId, name: role, role, expiresAt: Date.now() + 3_600_000 })).token;
    const { projectId } = test.service.owner;
    const [run, deploy, admin] = await Promise.all(
      (["run", "deploy", "admin"] as const).map((role) => issue(role, projectId)),
    );
    const document = await (await fetch(`${baseUrl}/openapi.json`)).json();
    const site = new ManagementSite(
      test,
      {
        nobody: null,
        stranger: await issue("admin", "p-stranger"),
        run: run ?? "",
        deploy: deploy ?? "",
        admin: admin ?? "",
        ...(await people(test)),
      },
      document,
    );
    return site;
  }

  get projectId(): string {
    return this.test.service.owner.projectId;
  }

  /** Sends a request; a path without its slash is of the project. Text, bytes and forms are sent as they are. */
  async ask(method: string, url: string, { as = "admin", body, headers }: Asking = {}): Promise<Answered> {
    const token = this.tokens[as];
    const response = await fetch(this.url(url), {
      method,
      headers: {
        ...(token !== null && { authorization: `Bearer ${token}` }),
        // A form says itself what it is.
        ...(body !== undefined && !(body instanceof FormData) && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: isSentAsIs(body) ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parse(text) };
  }

  /** Calls an operation and expects a 200 in exactly the form that the document gives it. */
  async call(id: string, params: Record<string, string> = {}, asking: Asking = {}): Promise<Answered> {
    const { method, path: template, parameters } = this.operation(id);
    const query = new URLSearchParams();
    let url = template.replace("{project_id}", this.projectId);
    for (const [name, value] of Object.entries(params)) {
      const isInPath = parameters.some((parameter) => parameter.name === name && parameter.in === "path");
      if (isInPath) url = url.replace(`{${name}}`, encodeURIComponent(value));
      else query.set(name, value);
    }
    const answer = await this.ask(method, query.size > 0 ? `${url}?${String(query)}` : url, asking);
    expect([id, answer.status, answer.status === 200 ? "" : answer.text]).toEqual([id, 200, ""]);
    this.check(id, answer);
    this.succeeded.add(id);
    return answer;
  }

  /** Fails unless the document knows of such an answer. */
  check(id: string, { status, json, headers, text }: Answered): void {
    const described = this.operation(id).responses[String(status)];
    if (!described) throw new Error(`${id} answered ${status}, which the document does not know: ${text}`);
    const [type = ""] = (headers.get("content-type") ?? "").split(";");
    const schema = described.content[type]?.schema;
    if (!schema) throw new Error(`${id} answered ${status} as ${type}, which the document does not know`);
    if (type !== "application/json") return;
    const result = this.schema(schema).safeParse(json);
    if (!result.success) throw new Error(`${id} ${status} ${text}: ${z.prettifyError(result.error)}`);
  }

  /** A schema of the document, for values to be held against. */
  schema(schema: object): z.ZodType {
    const known = this.#schemas.get(schema);
    if (known) return known;
    // Where zod looks for what a schema refers to.
    const text = JSON.stringify(schema).replaceAll("#/components/schemas/", "#/$defs/");
    const made = z.fromJSONSchema({ ...JSON.parse(text), $defs: this.document.components.schemas });
    this.#schemas.set(schema, made);
    return made;
  }

  operation(id: string): Described {
    const found = this.operations.find((operation) => operation.id === id);
    if (!found) throw new Error(`the document has no operation ${id}`);
    return found;
  }

  url(url: string): string {
    if (url.startsWith("http")) return url;
    const { baseUrl } = this.test.service;
    return url.startsWith("/") ? `${baseUrl}${url}` : `${baseUrl}/v2/projects/${this.projectId}/${url}`;
  }
}

/** An owner and a member of the default project, signed in. */
async function people({ service, settings }: TestService): Promise<{ owner: string; member: string }> {
  const post = async (url: string, body: object, token = "") => {
    const response = await fetch(`${service.baseUrl}${url}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(200);
    return (await response.json()) as Record<string, string>;
  };
  const seal = new Seal(loadMasterKey(path.join(settings.dataDir, "master.key")));
  const password = "correct horse battery";
  const link = new Links(seal, systemClock).setup();
  const { accessToken: owner = "" } = await post("/v2/setup", { link, email: "ada@example.com", password });
  const email = "grace@example.com";
  const invitations = `/v2/projects/${service.owner.projectId}/invitations`;
  const { inviteUrl = "" } = await post(invitations, { email }, owner);
  const invited = { link: inviteUrl.split("#")[1], email, password };
  const { accessToken: member = "" } = await post("/v2/invitation/sign-up", invited);
  return { owner, member };
}

function describedIn({ paths }: { paths: Record<string, Record<string, object>> }): Described[] {
  return Object.entries(paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const described = operation as Omit<Described, "id"> & { operationId: string };
      return { ...described, id: described.operationId, method: method.toUpperCase(), path: template };
    }),
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isSentAsIs(body: unknown): body is string | Uint8Array<ArrayBuffer> | FormData {
  return typeof body === "string" || body instanceof Uint8Array || body instanceof FormData;
}
