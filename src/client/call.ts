import { Cancelled, ConnectionLost, MillraceError } from "./errors.ts";
import { Run } from "./run.ts";
import { type Answer, answerOf, type Transport } from "./transport.ts";

/** The members of the JSON object that the function gets as arguments. */
export type Arguments = Readonly<Record<string, unknown>>;

export type CallOptions = {
  /** The function in the app; `run` if none is named. */
  readonly function?: string;
  /** Where the answer is also sent, and a secret of your own to sign it with. */
  readonly webhook?: string | { readonly url: string; readonly secret: string };
  /** The same call with the same key is executed once. */
  readonly idempotencyKey?: string;
  /** In whose line the call waits, instead of that of the token's account; a token of role `call` may not set it. */
  readonly fairnessKey?: string;
  /** How often a call is retried after a transient error; it gets a key of its own then. */
  readonly retries?: number;
  readonly signal?: AbortSignal;
};

/** What a run in the background may ask of the queue. Durations are seconds, or texts such as `90s` or `1h30m`. */
export type QueueOptions = {
  /** How many seconds it goes ahead of runs that come with it; `low` is -600, `high` 600. */
  readonly priority?: "low" | "normal" | "high" | number;
  /** How long, or until when, it waits before it may begin. */
  readonly delay?: number | string | Date;
  /** From then on: how long it may wait for its start, and how long it may take in all. */
  readonly ttl?: number | string;
  readonly timeout?: number | string;
  readonly maxAttempts?: number;
  /** Runs with the same key share what the app's `[queue]` allows for one key. */
  readonly concurrencyKey?: string;
  /** Up to five labels, to find it by. */
  readonly tags?: readonly string[];
};

type Mode = {
  /** Of a run in the background. */
  readonly queue?: QueueOptions;
  readonly headers: Readonly<Record<string, string | null>>;
};

/** Sends a call until it is answered. `signal` ends a request in progress, `patience` the waits in between. */
type Perform = <T>(signal: () => AbortSignal | undefined, patience?: AbortSignal) => Promise<Answer<T>>;

/** Prepares one call of a function, which may be sent several times but is executed once. */
export function prepareCall(
  transport: Transport,
  app: string,
  args: Arguments,
  options: CallOptions,
  mode: Mode,
): Perform {
  const { function: name = "run", webhook, idempotencyKey = null, retries: wanted = 0 } = options;
  const { fairnessKey = null } = options;
  const hook = typeof webhook === "string" ? { url: webhook, secret: null } : webhook;
  const query = new URLSearchParams();
  if (mode.queue) {
    query.set("async", "true");
    for (const [name, value] of askedOf(mode.queue)) query.append(name, value);
  }
  if (hook) query.set("webhookEndpoint", hook.url);
  const path = encodeURIComponent(name) + (query.size === 0 ? "" : `?${query.toString()}`);
  const body = JSON.stringify(args);
  const headers = {
    ...mode.headers,
    "x-webhook-secret": hook?.secret ?? null,
    "x-millrace-fairness-key": fairnessKey,
  };
  // Without a token the service stores no keys.
  const retries = transport.hasToken || idempotencyKey !== null ? wanted : 0;
  const isOwnKey = idempotencyKey === null && retries > 0;
  let key = isOwnKey ? newKey() : idempotencyKey;

  /** A run that waited when its connection broke was dropped, and still holds the key. */
  const neverBegan = async (runId: string): Promise<boolean> =>
    isOwnKey && (await new Run(transport, app, runId).record()).startedAt === null;

  return async <T>(signal: () => AbortSignal | undefined, patience?: AbortSignal) =>
    await transport.retrying(retries, patience, async (): Promise<Answer<T>> => {
      try {
        const response = await transport.send(app, path, {
          method: "POST",
          headers: { ...headers, "idempotency-key": key },
          body,
          signal: signal(),
        });
        return await answerOf<T>(response, patience);
      } catch (error) {
        const id = error instanceof MillraceError ? error.requestId : null;
        if (id === null) throw error;
        // An earlier try reached the service, and its run is in progress.
        if ((error as MillraceError).code === "run_unfinished") return { kind: "run", runId: id };
        if (!(error instanceof Cancelled) || !(await neverBegan(id))) throw error;
        key = newKey();
        const message = "The connection broke while the call waited.";
        throw new ConnectionLost({ code: "connection_lost", message, requestId: id, cause: error });
      }
    });
}

function askedOf({
  priority,
  delay,
  ttl,
  timeout,
  maxAttempts,
  concurrencyKey,
  tags = [],
}: QueueOptions): [string, string][] {
  const time = delay instanceof Date ? delay.toISOString() : delay;
  const given = Object.entries({ priority, delay: time, ttl, timeout, maxAttempts, concurrencyKey });
  return [
    ...given.flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, String(value)]],
    ),
    ...tags.map((tag): [string, string] => ["tag", tag]),
  ];
}

/** `crypto.randomUUID` exists only on pages loaded by https. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `key-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
