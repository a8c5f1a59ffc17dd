import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { type Patience, readText, sendPatiently, readJson } from "../cluster-request.ts";
import type { ClusterAccess } from "./cluster-access.ts";

const SILENCE_MS = 15_000;
/** For a whole answer: it holds one of few connections. */
const ANSWER_MS = 60_000;
/** An API server sends a bookmark about once a minute. */
const WATCH_SILENCE_MS = 90_000;
/** The server is asked to end a watch earlier, and may not. */
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
  readonly contentType?: string;
  readonly signal?: AbortSignal;
};

export class ApiError extends Error {
  readonly status: number;
  /** Kubernetes' reason, such as `AlreadyExists`; may be empty. */
  readonly reason: string;

  constructor(status: number, { reason, message }: { readonly reason: string; readonly message: string }) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.reason = reason;
  }

  /** The same request may succeed later: the server is overloaded, or stopping. */
  get isTransient(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

/** Requests to the API of a cluster, with limits on time and size. It does not retry. */
export class KubernetesApi {
  readonly namespace: string;
  readonly address: string;
  readonly #access: ClusterAccess;
  readonly #answerMs: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: MAX_CONNECTIONS });

  constructor(access: ClusterAccess, answerMs = ANSWER_MS) {
    this.namespace = access.namespace;
    this.address = access.server.origin;
    this.#access = access;
    this.#answerMs = answerMs;
  }

  /** The path of objects in the namespace, such as `pods` of `api/v1`, or of the named one. */
  pathOf(group: string, resource: string, name?: string): string {
    const whole = `/${group}/namespaces/${encodeURIComponent(this.namespace)}/${resource}`;
    return name === undefined ? whole : `${whole}/${encodeURIComponent(name)}`;
  }

  /** Sends a request and returns the parsed answer. Throws `ApiError` for a refusal. */
  async ask(asked: ApiRequest): Promise<unknown> {
    const answer = await this.#send(asked, this.#agent, { silenceMs: SILENCE_MS, wholeMs: this.#answerMs });
    return await readJson(answer, MAX_ANSWER_BYTES, WHOSE, refusal);
  }

  /** Opens a watch. The reader handles its end and its errors. */
  async watch(asked: ApiRequest): Promise<IncomingMessage> {
    // On its own connection: it would hold one of the few shared ones.
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
    const base = server.pathname.replace(/\/$/, "");
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

export function describeTrouble(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  return `the Kubernetes API cannot be reached: ${(error as Error).message}`.slice(0, MAX_WORDS);
}

/** A refusal is an object of the kind Status. */
function refusal(status: number, text: string): ApiError {
  let said: unknown = null;
  try {
    said = JSON.parse(text);
  } catch {
    // The answer came from a proxy.
  }
  return new ApiError(status, statusWords(said, `the Kubernetes API answered ${status}`));
}

/** The reason and message of a Status, cut to a readable length. */
export function statusWords(said: unknown, otherwise: string): { reason: string; message: string } {
  const { reason, message } = (said ?? {}) as { reason?: unknown; message?: unknown };
  return {
    reason: typeof reason === "string" ? reason.slice(0, MAX_WORDS) : "",
    message: typeof message === "string" && message !== "" ? message.slice(0, MAX_WORDS) : otherwise,
  };
}

type Permission = { readonly verb: string; readonly group: string; readonly resource: string };

/** Every permission that is used; `packaging/kubernetes/role.yaml` grants exactly these. */
export const PERMISSIONS: readonly Permission[] = [
  // The object that owns all others, and the network policies. They are applied as a whole.
  ...grant("", "configmaps", ["create", "patch"]),
  ...grant("networking.k8s.io", "networkpolicies", ["create", "patch"]),
  // The order of a seat.
  ...grant("", "secrets", ["create"]),
  // A seat.
  ...grant("", "pods", ["create", "delete", "get", "list", "watch"]),
  // The reason why a pod does not start, which some faults report nowhere else.
  ...grant("", "events", ["list"]),
];

export function describePermission({ verb, group, resource }: Permission): string {
  return `${verb} ${resource}${group === "" ? "" : `.${group}`}`;
}

/** Asks the cluster whether this account has a permission in the namespace. */
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
