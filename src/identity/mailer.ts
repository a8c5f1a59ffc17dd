import { randomInt } from "node:crypto";
import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { type Mail, readMailServer, readSender, sendMail, SmtpError } from "../kit/smtp.ts";

/** For new mails, and again for retries, so that failing mails do not block others. Beyond that, mails are dropped. */
const MAX_WAITING = 200;
/** A mail is sent at a random time within this span, so that timing does not show whether one was sent. */
const LATEST_START_MS = 2_000;
const RETRY_MS = [5_000, 60_000, 600_000];
/** The timeout of one mail. */
const SEND_MS = 60_000;

type MailOrder = {
  /** Makes the mail just before it is sent; null to send none. */
  readonly make: () => Promise<Mail | null>;
  readonly onSent?: () => Promise<void>;
};

type MailerOptions = {
  readonly smtpUrl: string;
  readonly smtpFrom: string;
  readonly clock: Clock;
  readonly log: Log;
};

type Waiting = { readonly order: MailOrder; readonly mail: Mail | null; readonly attempt: number };

/** Null if the settings name no server. */
export function openMailer(
  { smtpUrl, smtpFrom }: { readonly smtpUrl: string | null; readonly smtpFrom: string | null },
  parts: Pick<MailerOptions, "clock" | "log">,
): Mailer | null {
  return smtpUrl === null || smtpFrom === null ? null : new Mailer({ smtpUrl, smtpFrom, ...parts });
}

/** `baseUrl`: for links in mails, never from a request's Host header. */
export type Post = { readonly mailer: Pick<Mailer, "order">; readonly baseUrl: () => string };

/** Sends mails in the background, one at a time. Callers do not wait and do not get the outcome. */
export class Mailer {
  readonly #options: MailerOptions;
  /** New mails and retries that wait for their timer, oldest first. */
  readonly #fresh = new Map<Waiting, Timer>();
  readonly #retries = new Map<Waiting, Timer>();
  readonly #stopped = new AbortController();
  #last: Promise<void> = Promise.resolve();

  constructor(options: MailerOptions) {
    this.#options = options;
  }

  order(order: MailOrder): void {
    if (this.#fresh.size >= MAX_WAITING) {
      const waiting = this.#fresh.size;
      this.#options.log.warn({ waiting }, "too many mails are waiting; dropped this one");
      return;
    }
    this.#later(randomInt(LATEST_START_MS), { order, mail: null, attempt: 0 }, this.#fresh);
  }

  /** Drops the mails that wait, and aborts the one that is being sent. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    for (const queue of [this.#fresh, this.#retries]) {
      for (const timer of queue.values()) timer.cancel();
      queue.clear();
    }
    await this.#last;
  }

  #retry(ms: number, waiting: Waiting): void {
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
      // It may have been dropped meanwhile.
      if (queue.delete(waiting)) await this.#send(waiting);
    };
    const timer = this.#options.clock.after(ms, () => {
      this.#last = this.#last.then(send);
    });
    queue.set(waiting, timer);
  }

  /** Never throws. */
  async #send({ order, ...waiting }: Waiting): Promise<void> {
    const { log } = this.#options;
    const attempt = waiting.attempt + 1;
    let { mail } = waiting;
    try {
      mail ??= await order.make();
      if (!mail || this.#stopped.signal.aborted) return;
      await this.#deliver(mail);
    } catch (error) {
      // An SmtpError never contains what was sent.
      const what = error instanceof SmtpError ? { error: error.message } : { err: error };
      const retryMs = error instanceof SmtpError && !error.isTransient ? undefined : RETRY_MS[attempt - 1];
      const isTried = retryMs !== undefined && !this.#stopped.signal.aborted;
      log.warn(
        { ...what, attempt },
        isTried ? "could not send a mail; retrying later" : "could not send a mail",
      );
      if (isTried) this.#retry(retryMs, { order, mail, attempt });
      return;
    }
    await order
      .onSent?.()
      .catch((error: unknown) => log.warn({ err: error }, "a mail was sent, but that could not be recorded"));
  }

  async #deliver(mail: Mail): Promise<void> {
    const { smtpUrl, smtpFrom, clock } = this.#options;
    const [server, from] = [readMailServer(smtpUrl), readSender(smtpFrom)];
    if (!server || !from) throw new Error("the settings of the mail server are invalid");
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

export function invitationMail(to: string, { projectName, url }: { projectName: string; url: string }): Mail {
  return mail(to, "An invitation to Millrace", [
    `You have been invited to the project ${quoted(projectName)}. Open this link to join:`,
    url,
    "The link works once and expires in seven days. You can join with an existing account or create one.",
    "If you were not expecting this, you can ignore it.",
  ]);
}

export function proofMail(to: string, url: string): Mail {
  return mail(to, "Verify your address for Millrace", [
    "An account on Millrace uses this e-mail address. If it is yours, open this link in the browser where you are signed in:",
    url,
    "The link expires in a day. If this was not you, you can ignore it; nothing will happen.",
  ]);
}

export function passwordMail(to: string, url: string): Mail {
  return mail(to, "Reset your Millrace password", [
    "A password reset was requested for the account with this address. To choose a new password, open this link:",
    url,
    "The link works once and expires in an hour. If this was not you, you can ignore it; your password stays the same.",
  ]);
}

function mail(to: string, subject: string, paragraphs: readonly string[]): Mail {
  return { to, subject, text: `${paragraphs.join("\n\n")}\n` };
}

/** The project's name, shortened, without characters that could make a link in a mail program. */
function quoted(name: string): string {
  return `"${name
    .replaceAll(/[^\p{L}\p{N} _-]/gu, " ")
    .trim()
    .slice(0, 60)}"`;
}
