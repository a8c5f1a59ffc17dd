import { backoffMs, retry } from "../../kit/retry.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Seal } from "../../kit/seal.ts";
import type { Delivery, DeliveryAttempt, DeliveryState } from "../../model/delivery.ts";
import type { PayloadBlob } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";
import type { LargePayloads } from "../large-payloads.ts";
import type { Answer, Sender } from "./sender.ts";
import { deliveryHeaders, openSecret, SecretUnreadable, type SigningSecrets } from "./signing-secrets.ts";
import { nextWaitMs } from "./schedule.ts";

/** A delivery in this service's hands. */
export type ClaimedDelivery = Delivery & { readonly projectId: string };

export type CourierParts = {
  readonly store: Store;
  readonly seal: Seal;
  readonly secrets: SigningSecrets;
  readonly sender: Sender;
  /** What people read, and what receivers compare with their own. */
  readonly clock: Clock;
  /** What the schedule goes by: nobody can set it. */
  readonly steadyClock: Clock;
  readonly log: Log;
  /** Null where every body lies in the database. */
  readonly large?: LargePayloads | null;
  /** Who holds the deliveries. */
  readonly owner: string;
  readonly gapsMs: readonly number[];
  /** Told of each next attempt, as soon as it is on record. */
  readonly onPlanned: (at: number) => void;
};

type OnEnd = (hasAnswered: boolean | null) => void;

const RETRY_MS = 100;
const MAX_RETRY_MS = 5_000;
const GONE = 410;
/** How long a body waits whose blob cannot be read now. */
const POSTPONE_MS = 10_000;

/** Makes one attempt at a delivery and writes down what came of it. */
export class Courier {
  /** Attempts on record, by what they left the delivery as. */
  readonly attempts: Record<DeliveryState, number> = { pending: 0, delivered: 0, failed: 0 };
  readonly #parts: CourierParts;

  constructor(parts: CourierParts) {
    this.#parts = parts;
  }

  /**
   * `onEnd` is told as soon as the attempt is over, before it is on record: whether the host answered, or null
   * when nothing is known of it. After an abort the delivery stays as it was.
   */
  async deliver(delivery: ClaimedDelivery, onEnd: OnEnd, signal: AbortSignal): Promise<void> {
    const { clock, sender } = this.#parts;
    const { bodyBlob } = delivery;
    const body = bodyBlob ? await this.#fetched(bodyBlob) : (delivery.body ?? new Uint8Array());
    if (body === null || body === "later") {
      onEnd(null);
      if (body === "later") await this.#postpone(delivery, signal);
      else await this.putOff(delivery, "body_lost", signal);
      return;
    }
    const startedAt = clock.now();
    const started = clock.monotonic();
    const url = URL.parse(delivery.url);
    const requestHeaders = await this.#headers(delivery, body, startedAt, signal);
    if (!url || !requestHeaders) {
      onEnd(null);
      await this.putOff(delivery, url ? "secret_unreadable" : "bad_url", signal);
      return;
    }
    const answer = await sender.send({ url, headers: requestHeaders, body }, signal);
    onEnd(answer && answer.status !== null && answer.error !== "timed_out");
    if (!answer) return;
    const durationMs = Math.round(clock.monotonic() - started);
    await this.#record(delivery, { startedAt, durationMs, requestHeaders }, answer, signal);
  }

  /** The body from its blob; null if that is gone. Others wait for this place: a blob store that is away is not waited for. */
  async #fetched(blob: PayloadBlob): Promise<Uint8Array | "later" | null> {
    const { large, log } = this.#parts;
    if (!large) return null;
    return await large.read(blob).catch((error: unknown) => {
      log.error({ err: error }, "could not read the body of a webhook; retrying");
      return "later" as const;
    });
  }

  async #postpone({ id }: ClaimedDelivery, signal: AbortSignal): Promise<void> {
    const { store, steadyClock, owner, onPlanned } = this.#parts;
    const nextAt = steadyClock.now() + POSTPONE_MS;
    await this.persist(
      "could not postpone a webhook",
      () => store.deliveries.postpone({ id, owner, nextAt }),
      signal,
    );
    onPlanned(nextAt);
  }

  /** Counts an attempt that was not made. */
  async putOff(delivery: ClaimedDelivery, error: string, signal: AbortSignal): Promise<void> {
    const made = { startedAt: this.#parts.clock.now(), durationMs: 0, requestHeaders: {} };
    await this.#record(delivery, made, { status: null, error, retryAfterMs: null }, signal);
  }

  /** Asks the store until it answers: what was sent must not go unrecorded while the service lives. */
  async persist<T>(what: string, ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const asked = async (): Promise<{ readonly answer: T }> => {
      signal.throwIfAborted();
      return { answer: await ask() };
    };
    const { clock, log } = this.#parts;
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
    // It goes on until it has one, or throws.
    return done!.answer;
  }

  /** Null when a secret cannot be opened. */
  async #headers(
    delivery: ClaimedDelivery,
    body: Uint8Array,
    startedAt: number,
    signal: AbortSignal,
  ): Promise<Record<string, string> | null> {
    const { seal, secrets, log } = this.#parts;
    const { id, projectId, sealedSecret } = delivery;
    try {
      const callerSecret = sealedSecret && openSecret(seal, sealedSecret, `webhook_secret.${id}`);
      const ask = () => secrets.active(projectId);
      const active = await this.persist("could not read signing secrets", ask, signal);
      const timestampSeconds = Math.floor(startedAt / 1_000);
      return deliveryHeaders(delivery, body, { secrets: active, callerSecret, timestampSeconds });
    } catch (error) {
      if (!(error instanceof SecretUnreadable)) throw error;
      log.error({ err: error, delivery: id }, "could not sign a webhook");
      return null;
    }
  }

  async #record(
    { id, attempts, url }: ClaimedDelivery,
    made: Pick<DeliveryAttempt, "startedAt" | "durationMs" | "requestHeaders">,
    { status, error, retryAfterMs }: Answer,
    signal: AbortSignal,
  ): Promise<void> {
    const { store, steadyClock, log, owner, gapsMs, onPlanned } = this.#parts;
    const number = attempts + 1;
    const isOver = error === null || status === GONE;
    const waitMs = isOver
      ? null
      : nextWaitMs({ attempts: number, retryAfterMs, gapsMs, random: Math.random });
    const nextAt = waitMs === null ? null : steadyClock.now() + waitMs;
    const state: DeliveryState = error === null ? "delivered" : nextAt === null ? "failed" : "pending";
    const attempt = { ...made, number, status, error, nextAt };
    const isOurs = await this.persist(
      "could not record a webhook attempt",
      () => store.deliveries.recordAttempt({ id, owner, attempt, state, now: steadyClock.now() }),
      signal,
    );
    this.attempts[state] += 1;
    if (nextAt !== null) onPlanned(nextAt);
    // The path and the query of a webhook may hold its receiver's secrets.
    const facts = { delivery: id, host: URL.parse(url)?.host, attempt: number, status, error };
    if (!isOurs) log.warn(facts, "another service took over a delivery while it was being sent");
    else if (state === "failed") log.warn(facts, "gave up on a webhook delivery");
  }
}
