import { hash } from "node:crypto";
import type { LiveApp } from "../apps/catalog.ts";
import type { RememberedToken } from "../identity/tokens.ts";
import type { AddressRanges } from "../kit/ip-addresses.ts";
import type { Clock } from "../kit/clock.ts";
import { memberNames } from "../kit/json/keys.ts";
import type { Seal } from "../kit/seal.ts";
import { misfits } from "../model/arguments.ts";
import { AppError } from "../model/errors.ts";
import { type Terms, termsOf } from "../model/terms.ts";
import { isFinal } from "../model/run.ts";
import type { Executor } from "../runs/execute.ts";
import type { RunRequest, Webhook } from "../runs/live-run.ts";
import type { RunLookup } from "../runs/lookup.ts";
import type { QuotaKeeper } from "../runs/quotas/quota-keeper.ts";
import type { QueueWatch } from "../runs/queue/watch.ts";
import { respondMisfit } from "../runs/response.ts";
import type { Keyed, RunKeyMark, Submitter } from "../runs/submit.ts";
import type { Tracer } from "../runs/traces/tracer.ts";
import { parseWebhookUrl } from "../runs/webhooks/target.ts";
import { answerAccepted, type AppParts, beginTrace, type CheckedCall } from "./app-request.ts";
import type { BodyRoom } from "./body.ts";
import { storedKey } from "./fairness.ts";
import { preferredWait } from "./request-head.ts";
import { type AppRoute, queryWithout } from "./route.ts";
import { isWish, NO_WISHES, readWishes } from "../model/wishes.ts";
import { RunAnswer } from "./run-answer.ts";
import { sendResult } from "./run-views.ts";
import type { Exchange } from "./exchange.ts";

type WebhookParts = {
  readonly seal: Seal;
  /** Private addresses that webhooks may reach. */
  readonly webhookAllow: AddressRanges;
};

export type StarterParts = AppParts &
  WebhookParts & {
    readonly executor: Executor;
    readonly submitter: Submitter;
    readonly lookup: RunLookup;
    readonly clock: Clock;
    readonly queueWatch: Pick<QueueWatch, "watch">;
    readonly quotas: Pick<QuotaKeeper, "applies" | "admit">;
    /** Runs are due, and late, by a clock that cannot be set. */
    readonly steadyClock: Clock;
    readonly bodyRoom: BodyRoom;
    readonly tracer: Tracer;
  };

const MAX_KEY_CHARS = 255;
const MAX_SECRET_CHARS = 1024;
const REPLAYED = { "idempotent-replayed": "true" };

/** Starts a run in the mode its caller asked for. */
export class RunStarter {
  readonly #parts: StarterParts;

  constructor(parts: StarterParts) {
    this.#parts = parts;
  }

  /** `names`: the names of the body's members; null if they have not been read yet. */
  start(call: CheckedCall, body: Buffer, names: readonly string[] | null): void | Promise<void> {
    const { exchange, head, route, live, query, token, fairness } = call;
    const { id, callerAddress: ip } = exchange;
    if (exchange.response.destroyed) return undefined;
    const { functionName, isBare } = route;
    admitRun(call, this.#parts);
    const webhook = readWebhook(exchange, query.webhookEndpoint, this.#parts);
    const caller = token && token.principal.caller;
    const trace = beginTrace(this.#parts.tracer, call, token !== null);
    const { target } = live;
    const run: RunRequest = { id, target, functionName, body, isBare, ip, caller, fairness, webhook, trace };
    const key =
      head.idempotencyKey !== null && token ? keyMark(head.idempotencyKey, token, call, body) : null;
    if (query.isAsync) {
      const terms = readTerms(call, route.query, "", this.#parts.steadyClock);
      return this.#submit(call, { ...run, terms }, names ?? memberNames(body), key);
    }
    if (key) return this.#executeKeyed(call, run, key);
    const { executor, submitter } = this.#parts;
    const answer = this.#answer(call);
    // The caller may come back, or a webhook waits for the result: the run has to survive a crash.
    if (webhook || head.xDisconnect === "continue")
      return submitter.executeKept(run, answer).then((started) => answer.attach(started));
    answer.attach(executor.execute(run, answer));
    return undefined;
  }

  #answer(call: CheckedCall): RunAnswer {
    const { head, live, route } = call;
    const waitSeconds = preferredWait(head.prefer);
    if (waitSeconds === null || isGenerator(live, route.functionName))
      return new RunAnswer(call, this.#parts, null);
    return new RunAnswer(call, this.#parts, {
      waitMs: waitSeconds * 1000,
      adopt: async (run, answer) => {
        const isAdopted = await this.#parts.submitter.adopt(run, answer);
        if (isAdopted) this.#accepted(call, run.request.id, { "preference-applied": `wait=${waitSeconds}` });
        return isAdopted;
      },
    });
  }

  async #submit(
    call: CheckedCall,
    run: RunRequest,
    names: readonly string[],
    key: RunKeyMark | null,
  ): Promise<void> {
    const { submitter, tracer, clock } = this.#parts;
    const startMs = clock.now();
    await this.#checkArguments(call, names);
    if (!key) await submitter.submit(run);
    else if (await this.#replay(call, await submitter.submitKeyed(run, key))) return;
    this.#accepted(call, run.id);
    if (run.trace) tracer.accepted(run, startMs);
  }

  async #executeKeyed(call: CheckedCall, run: RunRequest, key: RunKeyMark): Promise<void> {
    const answer = this.#answer(call);
    const { live, ...keyed } = await this.#parts.submitter.executeKeyed(run, key, answer);
    if (live) answer.attach(live);
    else await this.#replay(call, keyed);
  }

  /** Refuses arguments that do not fit the signature before the run is accepted. */
  async #checkArguments({ live, route }: CheckedCall, names: readonly string[]): Promise<void> {
    const signature = await this.#parts.catalog.signature(live, route.functionName);
    const ignoresExtra = live.version.config.deployment.extraParams === "ignore";
    const { details, more } = misfits(signature, names, ignoresExtra);
    if (details.length > 0) throw respondMisfit(details, more);
  }

  /** Answers a call whose key was used before; false for a new call, which is still to be answered. */
  async #replay(call: CheckedCall, keyed: Keyed): Promise<boolean> {
    if (keyed.kind === "accepted") return false;
    if (keyed.kind === "different") throw new AppError("idempotency_mismatch");
    const { exchange, live, query } = call;
    const { lookup, bodyRoom } = this.#parts;
    const { runId } = keyed;
    exchange.id = runId;
    if (query.isAsync) {
      this.#accepted(call, runId, REPLAYED);
      return true;
    }
    const makeRoom = bodyRoom.forAnswer(live.app.projectId, exchange);
    const known = await lookup.find({ appNumber: live.app.number, id: runId }, makeRoom);
    if (!known) throw new AppError("payload_not_kept");
    if (isFinal(known.run.state))
      await sendResult(exchange, known, live.version.config.deployment.sse, REPLAYED);
    else if (known.run.isAsync) this.#accepted(call, runId, REPLAYED);
    else throw new AppError("run_unfinished", { headers: { "retry-after": "1" } });
    return true;
  }

  #accepted(call: CheckedCall, runId: string, headers?: Readonly<Record<string, string>>): void {
    answerAccepted(call, this.#parts.publicApiUrl, runId, headers);
  }
}

/** Throws `quota_exceeded` if the caller, or the project, may have no further run. */
export function admitRun(
  { route, token }: { readonly route: AppRoute; readonly token: RememberedToken | null },
  { quotas }: Pick<StarterParts, "quotas">,
): void {
  const payer = token && token.principal;
  if (quotas.applies(payer)) quotas.admit(route.projectId, payer);
}

/** Whether the function is known to stream: `Prefer: wait` never turns a stream into a 202. */
function isGenerator({ pool, version }: LiveApp, name: string): boolean {
  const known = pool.functions?.get(name) ?? version.functions?.find((signature) => signature.name === name);
  return known?.isGenerator ?? false;
}

/**
 * What an idempotency key is stored as. A token that sees only its holder's runs has keys of its own: with a shared key
 * it would get, or block, the answer of another caller.
 */
export function keyHashOf(key: string, { principal: { role, caller } }: RememberedToken): Buffer {
  if (key === "" || key.length > MAX_KEY_CHARS) {
    const message = `Idempotency-Key must have 1 to ${MAX_KEY_CHARS} characters.`;
    throw new AppError("bad_request", { message });
  }
  // Headers and user names contain no line breaks, so no key of the whole app looks like this.
  const ownKey = role === "call" ? `${caller.accountId}\n${caller.user ?? ""}\n${key}` : key;
  return hash("sha256", ownKey, "buffer");
}

/** The key and the call's fingerprint: function, query and body. */
function keyMark(
  key: string,
  token: RememberedToken,
  { route, query }: CheckedCall,
  body: Buffer,
): RunKeyMark {
  // What a call asks of the queue does not make it another call.
  const asked = query.isAsync ? queryWithout(route.query, (name) => isWish(name, "")) : route.query;
  const call = Buffer.from(`${route.functionName}\n${route.isBare}\n${asked}\n`);
  return {
    keyHash: keyHashOf(key, token),
    fingerprint: hash("sha256", Buffer.concat([call, body]), "buffer"),
  };
}

/** What an async call asks of the queue; null: nothing. */
export function readTerms(call: Asking, query: string, prefix: string, clock: Clock): Terms | null {
  const now = clock.now();
  const wishes = readAsked(call, query, prefix, now);
  return wishes && termsOf(wishes, now);
}

type Asking = Pick<CheckedCall, "head" | "token" | "fairness">;

/** The same as it was asked. */
export function readAsked({ head, token, fairness }: Asking, query: string, prefix: string, now: number) {
  const wishes = readWishes(query, prefix, head, now);
  const fairnessKey = storedKey(fairness, token);
  if (!wishes && fairnessKey === null) return null;
  return { ...(wishes ?? NO_WISHES), fairnessKey };
}

/** The webhook that a call asks for, with the secret that its caller gave; throws if it may not be called. */
export function readWebhook(
  { id: runId, head }: Pick<Exchange, "id" | "head">,
  endpoint: string | null,
  { seal, webhookAllow }: WebhookParts,
): Webhook | null {
  if (endpoint === null) return null;
  const { href } = parseWebhookUrl(endpoint, webhookAllow);
  const secret = head?.webhookSecret ?? null;
  if (secret === null) return { endpoint: href, sealedSecret: null };
  if (secret === "" || secret.length > MAX_SECRET_CHARS) {
    const message = `X-Webhook-Secret must have 1 to ${MAX_SECRET_CHARS} characters.`;
    throw new AppError("bad_request", { message });
  }
  return { endpoint: href, sealedSecret: seal.close(Buffer.from(secret), `webhook_secret.${runId}`) };
}
