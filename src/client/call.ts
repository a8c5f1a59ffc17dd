import { answerOf } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { Cancelled, ConnectionLost, MillraceError } from "./errors.ts";
import { Run } from "./run.ts";
import type { Transport } from "./transport.ts";

/** The members of the JSON object that the function gets as arguments. */
export type Arguments = Readonly<Record<string, unknown>>;

export type CallOptions = {
  /** The function in the app; `run` if none is named. */
  readonly function?: string;
  /** Where the answer is sent besides, and a secret of your own to sign it with. */
  readonly webhook?: string | { readonly url: string; readonly secret: string };
  /** The same call with the same key is executed once. */
  readonly idempotencyKey?: string;
  /** How often a call that broke or was refused for now is sent again; it gets a key of its own then. */
  readonly retries?: number;
  readonly signal?: AbortSignal;
};

type Mode = {
  readonly isAsync?: boolean;
  readonly headers: Readonly<Record<string, string | null>>;
};

/** One call of a function, which may be sent more than once but is executed once. */
export class Call {
  readonly retries: number;
  readonly #transport: Transport;
  readonly #app: string;
  readonly #path: string;
  readonly #body: string;
  readonly #headers: Readonly<Record<string, string | null>>;
  readonly #isOwnKey: boolean;
  #key: string | null;

  constructor(transport: Transport, app: string, args: Arguments, options: CallOptions, mode: Mode) {
    const { function: name = "run", webhook, idempotencyKey = null, retries = 0 } = options;
    const hook = typeof webhook === "string" ? { url: webhook, secret: null } : webhook;
    const query = new URLSearchParams();
    if (mode.isAsync) query.set("async", "true");
    if (hook) query.set("webhookEndpoint", hook.url);
    const search = query.size === 0 ? "" : `?${query.toString()}`;
    this.#transport = transport;
    this.#app = app;
    this.#path = encodeURIComponent(name) + search;
    this.#body = JSON.stringify(args);
    this.#headers = { ...mode.headers, "x-webhook-secret": hook?.secret ?? null };
    // Without a token the service keeps no keys.
    this.retries = transport.hasToken || idempotencyKey !== null ? retries : 0;
    this.#isOwnKey = idempotencyKey === null && this.retries > 0;
    this.#key = this.#isOwnKey ? newKey() : idempotencyKey;
  }

  /** Sends it until it is answered. `signal` ends a request under way, `patience` the waits in between. */
  async perform<T>(signal: () => AbortSignal | undefined, patience?: AbortSignal): Promise<Answer<T>> {
    return await this.#transport.retrying(this.retries, patience, async () => {
      try {
        return await this.#send<T>(signal(), patience);
      } catch (error) {
        const id = error instanceof MillraceError ? error.requestId : null;
        if (id === null) throw error;
        // An earlier try reached the service, and its run is under way.
        if ((error as MillraceError).code === "run_unfinished") return { kind: "run", runId: id };
        if (error instanceof Cancelled && (await this.#neverBegan(id))) throw this.#renewed(error);
        throw error;
      }
    });
  }

  async #send<T>(signal: AbortSignal | undefined, patience: AbortSignal | undefined): Promise<Answer<T>> {
    const response = await this.#transport.send(this.#app, this.#path, {
      method: "POST",
      headers: { ...this.#headers, "idempotency-key": this.#key },
      body: this.#body,
      signal,
    });
    return await answerOf<T>(response, patience);
  }

  /** A run that waited when its connection broke was dropped, and holds the key. */
  async #neverBegan(runId: string): Promise<boolean> {
    if (!this.#isOwnKey) return false;
    return (await new Run(this.#transport, this.#app, runId).record()).startedAt === null;
  }

  #renewed(cause: Cancelled): ConnectionLost {
    this.#key = newKey();
    const message = "The connection broke while the call waited.";
    return new ConnectionLost({ code: "connection_lost", message, requestId: cause.requestId, cause });
  }
}

/** `crypto.randomUUID` is only there on pages that came by https. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `key-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
