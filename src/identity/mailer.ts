import { randomInt } from "node:crypto";
import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { readMailServer, readSender, sendMail, SmtpError } from "../kit/smtp.ts";
import type { Mail } from "../kit/smtp.ts";

/**
 * What waits to be sent, and as much again that waits to be tried once more: mails that fail take no place from
 * others. Past it a new mail is dropped, or the retry that waits longest, and the log says so.
 */
const MAX_WAITING = 200;
/** A mail begins at a moment within this span: what an answer took, or the next one takes, tells nothing of it. */
const LATEST_START_MS = 2_000;
/** After these gaps it is tried again. */
const RETRY_MS = [5_000, 60_000, 600_000];
/** A server that takes longer than this for one mail has stopped. */
const SEND_MS = 60_000;

/** Makes the mail when its turn has come; null where nobody is to get one. */
export type MailOrder = {
  readonly make: () => Promise<Mail | null>;
  /** The server has taken it. */
  readonly onSent?: () => Promise<void>;
};

/** Sends mail later: the caller never waits, and does not learn the outcome. */
export type Mailer = {
  order(order: MailOrder): void;
  /** Drops what waits, and ends what is being sent. */
  stop(): Promise<void>;
};

type MailerOptions = {
  readonly smtpUrl: string;
  readonly smtpFrom: string;
  readonly clock: Clock;
  readonly log: Log;
};

type Waiting = MailOrder & { readonly mail: Mail | null; readonly attempt: number };

/** What sends the service's mail; null where its settings name no server. */
export function openMailer(
  { smtpUrl, smtpFrom }: { readonly smtpUrl: string | null; readonly smtpFrom: string | null },
  parts: Pick<MailerOptions, "clock" | "log">,
): SmtpMailer | null {
  return smtpUrl === null || smtpFrom === null ? null : new SmtpMailer({ smtpUrl, smtpFrom, ...parts });
}

/** Sends mail by one server, one at a time. */
export class SmtpMailer implements Mailer {
  readonly #options: MailerOptions;
  /** Mails that were not tried yet, and those that failed, oldest first; each until its turn has come. */
  readonly #fresh = new Map<Waiting, Timer>();
  readonly #retries = new Map<Waiting, Timer>();
  readonly #stopped = new AbortController();
  #last: Promise<void> = Promise.resolve();

  constructor(options: MailerOptions) {
    this.#options = options;
  }

  order({ make, onSent }: MailOrder): void {
    if (this.#fresh.size >= MAX_WAITING) {
      const waiting = this.#fresh.size;
      this.#options.log.warn({ waiting }, "too many mails are waiting; dropped this one");
      return;
    }
    const order = { make, ...(onSent && { onSent }), mail: null, attempt: 0 };
    this.#later(randomInt(LATEST_START_MS), order, this.#fresh);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    for (const queue of [this.#fresh, this.#retries]) {
      for (const timer of queue.values()) timer.cancel();
      queue.clear();
    }
    await this.#last;
  }

  #again(ms: number, waiting: Waiting): void {
    const [oldest] = this.#retries;
    if (oldest && this.#retries.size >= MAX_WAITING) {
      const [dropped, timer] = oldest;
      timer.cancel();
      this.#retries.delete(dropped);
      const { attempt } = dropped;
      this.#options.log.warn({ attempt }, "too many mails are waiting for a retry; dropped the oldest");
    }
    this.#later(ms, waiting, this.#retries);
  }

  #later(ms: number, waiting: Waiting, queue: Map<Waiting, Timer>): void {
    if (this.#stopped.signal.aborted) return;
    const send = async (): Promise<void> => {
      // It may have been dropped while one before it was sent.
      if (queue.delete(waiting)) await this.#send(waiting);
    };
    const timer = this.#options.clock.after(ms, () => {
      this.#last = this.#last.then(send);
    });
    queue.set(waiting, timer);
  }

  /** Never throws: nobody waits for it. */
  async #send({ make, onSent, ...waiting }: Waiting): Promise<void> {
    const { log } = this.#options;
    const attempt = waiting.attempt + 1;
    let { mail } = waiting;
    try {
      mail ??= await make();
      if (!mail || this.#stopped.signal.aborted) return;
      await this.#deliver(mail);
    } catch (error) {
      // The error holds what the server said, never what it was told.
      const what = error instanceof SmtpError ? { error: error.message } : { err: error };
      const retryMs = error instanceof SmtpError && !error.isTransient ? undefined : RETRY_MS[attempt - 1];
      const isTried = retryMs !== undefined && !this.#stopped.signal.aborted;
      log.warn(
        { ...what, attempt },
        isTried ? "could not send a mail; retrying later" : "could not send a mail",
      );
      if (isTried) this.#again(retryMs, { make, ...(onSent && { onSent }), mail, attempt });
      return;
    }
    await onSent?.().catch((error: unknown) =>
      log.warn({ err: error }, "a mail was sent, but that could not be recorded"),
    );
  }

  async #deliver(mail: Mail): Promise<void> {
    const { smtpUrl, smtpFrom, clock } = this.#options;
    const [server, from] = [readMailServer(smtpUrl), readSender(smtpFrom)];
    if (!server || !from) throw new Error("the settings of the mail server were not checked");
    const limit = new AbortController();
    const timer = clock.after(SEND_MS, () => limit.abort());
    try {
      const signal = AbortSignal.any([this.#stopped.signal, limit.signal]);
      await sendMail(server, mail, { from, now: clock.now() }, signal);
    } finally {
      timer.cancel();
    }
  }
}
