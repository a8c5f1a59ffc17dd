import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { readText, sendPatiently } from "../cluster-request.ts";
import type { Patience } from "../cluster-request.ts";
import type { ClusterAccess } from "./cluster-access.ts";

/** Between two bytes, and until the first: an API server that says nothing is taken for gone. */
const SILENCE_MS = 15_000;
/** For a whole answer, however slowly it comes: what waits for it holds one of few connections. */
const ANSWER_MS = 60_000;
/** An API server tells the watched version about once a minute, whatever happens. */
const WATCH_SILENCE_MS = 90_000;
/** It is asked to end a watch before that, and might not. */
const WATCH_MS = 360_000;
/** A page of 500 pods takes about 5 MB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const WHOSE = "the Kubernetes API";
const MAX_CONNECTIONS = 8;
const MAX_WORDS = 500;

export type ApiRequest = {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** JSON unless it says otherwise. */
  readonly contentType?: string;
  readonly signal?: AbortSignal;
};

/** The API server has refused a request. */
export class ApiError extends Error {
  readonly status: number;
  /** In Kubernetes' own word, such as `AlreadyExists`; empty where it gave none. */
  readonly reason: string;

  constructor(status: number, { reason, message }: { readonly reason: string; readonly message: string }) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.reason = reason;
  }

  /** Whether the same request may be taken later: the server is overloaded, or stopping. */
  get isPassing(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

/** Requests to the API of one cluster, bounded in time and size. Nothing is repeated here. */
export class KubernetesApi {
  readonly #access: ClusterAccess;
  readonly #answerMs: number;
  readonly #agent: Agent;

  constructor(access: ClusterAccess, answerMs = ANSWER_MS) {
    this.#access = access;
    this.#answerMs = answerMs;
    this.#agent = new Agent({ keepAlive: true, maxSockets: MAX_CONNECTIONS });
  }

  get namespace(): string {
    return this.#access.namespace;
  }

  /** For messages. */
  get address(): string {
    return this.#access.server.origin;
  }

  /** The path of objects of our namespace, such as `pods` of `api/v1`; of one of them where it is named. */
  pathOf(group: string, resource: string, name?: string): string {
    const whole = `/${group}/namespaces/${encodeURIComponent(this.namespace)}/${resource}`;
    return name === undefined ? whole : `${whole}/${encodeURIComponent(name)}`;
  }

  /** Asks, and gives the parsed answer. Throws `ApiError` for a refusal. */
  async ask(asked: ApiRequest): Promise<unknown> {
    const answer = await this.#send(asked, this.#agent, { silenceMs: SILENCE_MS, wholeMs: this.#answerMs });
    const text = await readText(answer, MAX_ANSWER_BYTES, WHOSE);
    const { statusCode = 0 } = answer;
    if (statusCode >= 200 && statusCode < 300) return parseJson(text);
    throw refusal(statusCode, text);
  }

  /** Asks for what does not end, and gives it as it comes. Its end and its errors are the reader's. */
  async watch(asked: ApiRequest): Promise<IncomingMessage> {
    // On a connection of its own: it would hold one of the few that all others share.
    const answer = await this.#send(asked, false, { silenceMs: WATCH_SILENCE_MS, wholeMs: WATCH_MS });
    if (answer.statusCode === 200) return answer;
    throw refusal(answer.statusCode ?? 0, await readText(answer, MAX_ANSWER_BYTES, WHOSE));
  }

  close(): void {
    this.#agent.destroy();
  }

  async #send(
    { method, path, query = {}, body, contentType = "application/json", signal }: ApiRequest,
    agent: Agent | false,
    patience: Patience,
  ): Promise<IncomingMessage> {
    const { server, tls, token } = this.#access;
    const search = new URLSearchParams(query).toString();
    const given = token();
    const text = body === undefined ? undefined : JSON.stringify(body);
    const { pathname } = server;
    const base = pathname.endsWith("/") ? pathname.slice(0, -1) : pathname;
    const sent = request(server, {
      ...tls,
      method,
      path: `${base}${path}${search === "" ? "" : `?${search}`}`,
      headers: {
        accept: "application/json",
        ...(given !== null && { authorization: `Bearer ${given}` }),
        ...(text !== undefined && { "content-type": contentType, "content-length": Buffer.byteLength(text) }),
      },
      agent,
      timeout: patience.silenceMs,
      ...(signal && { signal }),
    });
    return await sendPatiently(sent, text, patience);
  }
}

/** For people, what went wrong with a request. */
export function describeTrouble(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  return `the Kubernetes API cannot be reached: ${(error as Error).message}`.slice(0, MAX_WORDS);
}

/** Refusals are objects of the kind Status. */
function refusal(status: number, text: string): ApiError {
  let said: unknown = null;
  try {
    said = JSON.parse(text);
  } catch {
    // Something in between has answered.
  }
  return new ApiError(status, statusWords(said, `the Kubernetes API answered ${status}`));
}

/** What a Status says, cut to what people read. */
export function statusWords(said: unknown, otherwise: string): { reason: string; message: string } {
  const { reason, message } = (said ?? {}) as { reason?: unknown; message?: unknown };
  return {
    reason: typeof reason === "string" ? reason.slice(0, MAX_WORDS) : "",
    message: typeof message === "string" && message !== "" ? message.slice(0, MAX_WORDS) : otherwise,
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error("the Kubernetes API answered with no JSON", { cause: error });
  }
}

/** One thing that the service does with objects of its namespace. */
type Permission = { readonly verb: string; readonly group: string; readonly resource: string };

/** Every verb that is used, and no other; `packaging/kubernetes/role.yaml` grants exactly these. */
export const PERMISSIONS: readonly Permission[] = [
  // The one object that owns all others, and how the network of pods is closed: each is applied as a whole.
  ...grant("", "configmaps", ["create", "patch"]),
  ...grant("networking.k8s.io", "networkpolicies", ["create", "patch"]),
  // What a seat is told at its start.
  ...grant("", "secrets", ["create"]),
  // A seat.
  ...grant("", "pods", ["create", "delete", "get", "list", "watch"]),
  // Why it is not there: of some faults, nothing else tells.
  ...grant("", "events", ["list"]),
];

/** For people: `create secrets`. */
export function describePermission({ verb, group, resource }: Permission): string {
  return `${verb} ${resource}${group === "" ? "" : `.${group}`}`;
}

/** Asks the cluster whether whoever we are may do that in our namespace. */
export async function isAllowed(api: KubernetesApi, { verb, group, resource }: Permission): Promise<boolean> {
  const answer = await api.ask({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { namespace: api.namespace, verb, group, resource } },
    },
  });
  return (answer as { status?: { allowed?: unknown } } | null)?.status?.allowed === true;
}

function grant(group: string, resource: string, verbs: readonly string[]): Permission[] {
  return verbs.map((verb) => ({ verb, group, resource }));
}
