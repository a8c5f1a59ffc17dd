import { backoffMs, retry } from "../../kit/retry.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Seal } from "../../kit/seal.ts";
import type { Delivery, DeliveryAttempt, DeliveryState } from "../../model/delivery.ts";
import type { PayloadBlob } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";
import type { CallTrace } from "../../model/trace.ts";
import type { LargePayloads } from "../large-payloads.ts";
import type { Tracer } from "../traces/tracer.ts";
import type { Answer, Sender, SenderOptions } from "./sender.ts";
import { deliveryHeaders, openSecret, SecretUnreadable, type SigningSecrets } from "./signing-secrets.ts";
import type { Waiting } from "./queueing.ts";
import { GAPS_MS, nextWaitMs } from "./schedule.ts";

export type ClaimedDelivery = Delivery & { readonly projectId: string };

export type DelivererOptions = SenderOptions & {
  readonly store: Store;
  readonly seal: Seal;
  readonly secrets: SigningSecrets;
  /** Cannot be set; deliveries are scheduled and stored with it. */
  readonly steadyClock: Clock;
  readonly log: Log;
  readonly tracer: Pick<Tracer, "deliver" | "delivered">;
  /** Null if all bodies are in the database. */
  readonly large?: LargePayloads | null;
  /** The same claimer as for runs, so that one heartbeat keeps both. */
  readonly owner: string;
  /** The wait before each attempt. */
  readonly gapsMs?: readonly number[];
  /** Where deliveries wait for their hosts. */
  readonly waiting?: Waiting;
  /** How long a stop waits for attempts in progress. */
  readonly stopMs?: number;
};

type CourierParts = DelivererOptions & {
  readonly sender: Sender;
  /** Ends attempts when the service stops; their deliveries stay as they were. */
  readonly signal: AbortSignal;
  /** Called with the time of each next attempt as soon as it is recorded. */
  readonly onPlanned: (at: number) => void;
};

type OnEnd = (hasAnswered: boolean | null) => void;

const RETRY_MS = 100;
const MAX_RETRY_MS = 5_000;
const GONE = 410;
/** How long a delivery is postponed that cannot be sent now. */
export const POSTPONE_MS = 10_000;

/** Makes one attempt at a delivery and records the result. */
export class Courier {
  /** Recorded attempts, by the state they left the delivery in. */
  readonly attempts: Record<DeliveryState, number> = { pending: 0, delivered: 0, failed: 0 };
  readonly #parts: CourierParts;

  constructor(parts: CourierParts) {
    this.#parts = parts;
  }

  /** Calls `onEnd` before the attempt is recorded: whether the host answered, or null if that is unknown. */
  async deliver(delivery: ClaimedDelivery, onEnd: OnEnd): Promise<void> {
    const { clock, steadyClock, sender, signal, tracer } = this.#parts;
    const { bodyBlob } = delivery;
    const body = bodyBlob ? await this.#fetched(bodyBlob) : (delivery.body ?? new Uint8Array());
    if (body === "later") {
      onEnd(null);
      return await this.postpone(delivery.id, steadyClock.now() + POSTPONE_MS);
    }
    const startedAt = clock.now();
    const started = clock.monotonic();
    const url = URL.parse(delivery.url);
    const trace = tracer.deliver(delivery.trace);
    const requestHeaders = body && (await this.#headers(delivery, body, startedAt, trace));
    if (!body || !url || !requestHeaders) {
      onEnd(null);
      const error = !body ? "body_lost" : url ? "secret_unreadable" : "bad_url";
      // Counts as an attempt, though none was made.
      const made = { startedAt, durationMs: 0, requestHeaders: {} };
      return await this.#record(delivery, made, { status: null, error, retryAfterMs: null }, trace);
    }
    const answer = await sender.send({ url, headers: requestHeaders, body }, signal);
    onEnd(answer && answer.status !== null && answer.error !== "timed_out");
    if (!answer) return;
    const durationMs = Math.round(clock.monotonic() - started);
    await this.#record(delivery, { startedAt, durationMs, requestHeaders }, answer, trace);
  }

  /** Null if the blob is gone; "later" if it cannot be read now, because waiting would take the place of others. */
  async #fetched(blob: PayloadBlob): Promise<Uint8Array | "later" | null> {
    const { large, log } = this.#parts;
    if (!large) return null;
    return await large.read(blob).catch((error: unknown) => {
      log.error({ err: error }, "could not read the body of a webhook; retrying");
      return "later" as const;
    });
  }

  /** Sends it no earlier than `nextAt`, without counting an attempt. */
  async postpone(id: string, nextAt: number): Promise<void> {
    const { store, owner, onPlanned } = this.#parts;
    const ask = () => store.deliveries.postpone({ id, owner, nextAt });
    await this.persist("could not postpone a webhook", ask);
    onPlanned(nextAt);
  }

  /** Asks the store until it answers: an attempt must not go unrecorded while the service lives. */
  async persist<T>(what: string, ask: () => Promise<T>): Promise<T> {
    const { clock, log, signal } = this.#parts;
    const asked = async () => {
      signal.throwIfAborted();
      return { answer: await ask() };
    };
    const done = await retry(asked, {
      clock,
      delayMs: (failures) => backoffMs(failures, RETRY_MS, MAX_RETRY_MS),
      shouldRetry: (error) => {
        if (error instanceof SecretUnreadable) throw error; // That does not mend itself.
        signal.throwIfAborted();
        log.error({ err: error }, `${what}; retrying`);
        return true;
      },
      signal,
    });
    // It retries until there is one, or throws.
    return done!.answer;
  }

  /** Null if a secret cannot be opened. */
  async #headers(delivery: ClaimedDelivery, body: Uint8Array, startedAt: number, trace: CallTrace | null) {
    const { seal, secrets, log } = this.#parts;
    const { id, projectId, sealedSecret } = delivery;
    try {
      const callerSecret = sealedSecret && openSecret(seal, sealedSecret, `webhook_secret.${id}`);
      const active = await this.persist("could not read signing secrets", () => secrets.active(projectId));
      const timestampSeconds = Math.floor(startedAt / 1_000);
      return deliveryHeaders(delivery, body, { secrets: active, callerSecret, timestampSeconds, trace });
    } catch (error) {
      if (!(error instanceof SecretUnreadable)) throw error;
      log.error({ err: error, delivery: id }, "could not sign a webhook");
      return null;
    }
  }

  async #record(
    delivery: ClaimedDelivery,
    made: Pick<DeliveryAttempt, "startedAt" | "durationMs" | "requestHeaders">,
    { status, error, retryAfterMs }: Answer,
    trace: CallTrace | null,
  ): Promise<void> {
    const { id, attempts, url } = delivery;
    const { store, steadyClock, log, owner, gapsMs = GAPS_MS, onPlanned } = this.#parts;
    const number = attempts + 1;
    const isOver = error === null || status === GONE;
    const waitMs = isOver ? null : nextWaitMs({ attempts: number, retryAfterMs, gapsMs });
    const nextAt = waitMs === null ? null : steadyClock.now() + waitMs;
    const state: DeliveryState = error === null ? "delivered" : nextAt === null ? "failed" : "pending";
    const attempt = { ...made, number, status, error, nextAt };
    const isOurs = await this.persist("could not record a webhook attempt", () =>
      store.deliveries.recordAttempt({ id, owner, attempt, state, now: steadyClock.now() }),
    );
    this.attempts[state] += 1;
    this.#parts.tracer.delivered(delivery, trace, attempt);
    if (nextAt !== null) onPlanned(nextAt);
    // The path and the query of a webhook may contain its receiver's secrets.
    const facts = { delivery: id, host: URL.parse(url)?.host, attempt: number, status, error };
    if (!isOurs) log.warn(facts, "another service took over a delivery while it was being sent");
    else if (state === "failed") log.warn(facts, "gave up on a webhook delivery");
  }
}
